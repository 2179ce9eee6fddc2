"""New plugins: `tidelog plugin new` writes a package that works, with its tests."""
