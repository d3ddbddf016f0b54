"""documents.py - the commands that docs/kubernetes.md shows: every block says whether a test runs it.

A block of commands begins with ```sh and a word: `images` and `run` are run by tests/containers and here, `units` by
tests/deploy, `install` by whoever sets up a machine (setup-debian.sh is all that may stand there), `cluster` needs a cluster.
"""
import os
import re
import subprocess
import sys

KINDS = ("images", "run", "units", "install", "cluster")


def read(path):
    """All blocks, as (kind, commands)."""
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^```sh *(\w*)\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)


def blocks(path, kind):
    return [commands for found, commands in read(path) if found == kind]


def main(path):
    failed = 0
    for kind, commands in read(path):
        if kind not in KINDS:
            print(f"{path}: does a test run this, or does it need a cluster? {commands}")
            failed += 1
        if kind == "install" and any(not line.startswith("deploy/setup-debian.sh") for line in
                                     commands.splitlines()):
            print(f"{path}: more than setup-debian.sh: {commands}")
            failed += 1
        if kind == "run":
            environment = os.environ | {"PATH": f"{os.environ['CADRE_BIN_DIR']}:{os.environ['PATH']}"}
            run = subprocess.run(["bash", "-euc", commands], env=environment, capture_output=True, text=True,
                                 timeout=300, check=False)
            if run.returncode:
                print(f"{path}: exit {run.returncode}: {commands}{run.stderr}")
                failed += 1
    names = [kind for kind, _ in read(path)]
    print(f"{path}: {len(names)} blocks, " +
          ", ".join(f"{names.count(kind)} {kind}" for kind in KINDS) + f", {failed} wrong")
    return 1 if failed or "run" not in names or "images" not in names else 0


if __name__ == "__main__":
    sys.exit(main("docs/kubernetes.md"))
