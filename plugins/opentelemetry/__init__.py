"""Export of the broker's meters by OTLP over HTTP; it needs the extra `opentelemetry`."""
