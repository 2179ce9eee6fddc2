"""Keys and certificates from files and text, and TLS contexts of them: a library of plugins, not a plugin."""
