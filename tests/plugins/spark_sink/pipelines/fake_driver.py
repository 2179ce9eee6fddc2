"""A process in place of a pipeline's own: its settings of Spark are what it does and its log.

It needs no Spark: it starts quickly, and does on command what a real one does rarely.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def main() -> int:
    pipeline = json.loads(sys.stdin.readline())
    conf = pipeline["spark_conf"]
    log = Path(conf["spark.log"])

    def note(text: object) -> None:
        with log.open("a") as stream:
            stream.write(f"{text}\n")

    note("started")
    match conf["spark.fake"]:
        case "fails":
            report(state="failed", error="ValueError: no tide")
            return 1
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "never stops":
            child = subprocess.Popen(["sleep", "1000"])
            note(child.pid)
            signal.pause()
        case "tells its files":
            note(pipeline["source_options"].get("localLogDirs"))
            sys.stdin.readline()
        case "garbles":
            print("this is no report", flush=True)
            signal.pause()
        case "starts":
            report(state="starting")
            for line in sys.stdin:
                note(json.loads(line))
                if json.loads(line) == "stop":
                    return 0
        case _:
            report(state="running", position={"t": {"0": 1}}, batch=7, batch_rows=1)
            for line in sys.stdin:
                note(json.loads(line))
                if json.loads(line) == "stop":
                    return 0
    return 0


def report(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main())
