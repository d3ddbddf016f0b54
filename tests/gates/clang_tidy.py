#!/usr/bin/env python3
"""clang_tidy.py BUILD_FOLDER [FILE ...] - runs clang-tidy 14 over what the build compiles.

Without files it takes every source of the libraries and programs (tests are compiled with the same
warnings, but their macros give clang-tidy nothing but noise). Prints findings, exits 1 on any.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

import source

# gcc's flag for zeroed automatic variables hides behind a second flag in clang 14.
EXTRA = ("-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang",
         "-Wno-unknown-warning-option")


def sources(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        paths = {os.path.relpath(entry["file"], source.ROOT) for entry in json.load(file)}
    return sorted((path for path in paths if path.split("/")[0] in source.LIBRARY_FOLDERS),
                  key=lambda path: -os.path.getsize(os.path.join(source.ROOT, path)))


def check(build, path):
    command = ["clang-tidy-14", "--quiet", "-p", build, "--warnings-as-errors=*"]
    command += [f"--extra-arg={flag}" for flag in EXTRA] + [path]
    run = subprocess.run(command, cwd=source.ROOT, capture_output=True, text=True, timeout=300,
                         check=False)
    return run.returncode, run.stdout + (run.stderr if run.returncode and not run.stdout else "")


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    build = os.path.abspath(arguments[0])
    paths = arguments[1:] or sources(build)
    if not paths:
        print("clang_tidy: nothing to check", file=sys.stderr)
        return 1
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for status, text in pool.map(lambda path: check(build, path), paths):
            failed += status != 0
            if status != 0:
                print(text, end="", flush=True)
    print(f"clang_tidy: {len(paths)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
