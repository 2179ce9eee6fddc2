"""The authorizer `standard`: access control entries in the metadata, like Kafka's `StandardAuthorizer`."""
