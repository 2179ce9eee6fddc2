"""`python -m benchmarks.load FUNCTION TYPE`: run a load for each spec in the input, print results as JSON.

The harness starts these. Only the module of the load is imported: all of them take a second.
"""

import sys

from .process import serve_load

if __name__ == "__main__":
    serve_load(*sys.argv[1:])
