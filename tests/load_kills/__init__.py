"""Random `kill -9` of `tidelog load`, its JVM, its Python workers and the broker."""
