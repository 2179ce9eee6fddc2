"""The plugins that ship with tidelog, one package each; the kernel loads them through their entry points."""
