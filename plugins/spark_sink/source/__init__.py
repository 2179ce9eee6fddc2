"""Reading topics with Spark: options, planning in the driver, and reading ranges of offsets in tasks."""
