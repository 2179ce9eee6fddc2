"""`python -m tidelog.kernel` is the command `tidelog`."""

from __future__ import annotations

from tidelog.kernel.cli import main

if __name__ == "__main__":
    main()
