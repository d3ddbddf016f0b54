"""main.py - the command: builds the images, runs the scenarios, removes everything; see run and README.md."""
import argparse
import os
import signal
import subprocess
import sys
import time
import traceback

import scenarios
from cluster import Cluster
from engine import Engine, Failure


def interrupted(number, _):
    raise KeyboardInterrupt(signal.Signals(number).name)


def run(engine, overlay, scenario, logs):
    if not overlay:
        return scenario(engine)
    cluster = Cluster(engine, overlay)
    try:
        return scenario(cluster)
    except Failure:
        cluster.dump()
        raise
    finally:
        if logs:
            cluster.keep_logs(logs)
        cluster.close()


def main():
    parser = argparse.ArgumentParser(prog="tests/containers/run", allow_abbrev=False)
    parser.add_argument("--list", action="store_true", help="names what there is, runs nothing")
    parser.add_argument("--only", metavar="NAME", help="runs that one")
    parser.add_argument("--no-build", action="store_true", help="takes the images of the last run")
    parser.add_argument("--keep-logs", metavar="DIR", help="puts the logs of all pods there")
    options = parser.parse_args()
    chosen = [item for item in scenarios.SCENARIOS if options.only in (None, item[0])]
    if options.list:
        for name, _, scenario in scenarios.SCENARIOS:
            print(f"{name:10} {scenario.__doc__}")
        return 0
    if not chosen:
        print(f"there is no {options.only}; --list names what there is", file=sys.stderr)
        return 2
    if options.keep_logs:
        os.makedirs(options.keep_logs, exist_ok=True)
    signal.signal(signal.SIGTERM, interrupted)
    failed = 0
    engine = Engine()
    try:
        if not options.no_build:
            print(f"images built in {engine.build():.0f} s", flush=True)
        for name, overlay, scenario in chosen:
            began = time.monotonic()
            try:
                verdict, text = "PASS", run(engine, overlay, scenario, options.keep_logs)
            except (Failure, subprocess.TimeoutExpired) as error:
                verdict, text = "FAIL", error
                failed += 1
            except Exception:
                traceback.print_exc()
                raise
            print(f"{verdict} {name:10} {time.monotonic() - began:5.1f} s  {text}", flush=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        engine.close()
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as error:
        sys.exit(f"FAIL {error}")
    except KeyboardInterrupt as error:
        sys.exit(f"interrupted: {error}")
