"""`python -m benchmarks`, from the root of a checkout."""

from benchmarks.cli import main

if __name__ == "__main__":
    main()
