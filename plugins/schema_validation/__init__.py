"""An interceptor that refuses values which do not fit a schema: JSON Schema, Avro or Protobuf."""
