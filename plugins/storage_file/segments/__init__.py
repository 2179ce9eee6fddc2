"""A partition's segments: their files, appending, reading, rolling."""
