"""`python -m benchmarks.load NAME SPEC`: run one load, print its result as JSON. The harness starts these."""

import sys

from .loads import LOADS
from .process import serve_load

if __name__ == "__main__":
    serve_load(LOADS[sys.argv[1]], sys.argv[2])
