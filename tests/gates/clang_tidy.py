#!/usr/bin/env python3
"""clang_tidy.py [--analyzer] BUILD_FOLDER [FILE ...] - runs clang-tidy 14 over what the build compiles.

The checks are those of .clang-tidy. Its clang-analyzer ones follow every path through every function and
take thirty times as long as all others: they are left out, or, with --analyzer, the only ones.

Without files it takes every C source of the libraries and programs (tests are compiled with the same
warnings, but their macros give clang-tidy nothing but noise; CUDA sources with flags that clang does
not know). Prints findings, exits 1 on any.

A file that had no finding is not looked at again until what the compiler sees of it changes: the
build folder keeps the hash of its preprocessed text.
"""
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys

import source

# gcc's flag for zeroed automatic variables hides behind a second flag in clang 14.
EXTRA = ("-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang",
         "-Wno-unknown-warning-option")

WITHOUT_ANALYZER = "-clang-analyzer-*"
# What .clang-tidy leaves out of the analyzer's checks stays out: these follow its own list.
ANALYZER = "-bugprone-*,-cert-*,-misc-*,-performance-*,-readability-*"


def read_commands(build):
    """The compile command of each source of the libraries and programs, by path from the root."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {os.path.relpath(entry["file"], source.ROOT): entry for entry in json.load(file)}
    return {path: entry for path, entry in entries.items()
            if path.split("/")[0] in source.LIBRARY_FOLDERS and path.endswith(".c")}


def fingerprint(entry, checks):
    """A hash of all that decides what clang-tidy says about one source."""
    words = entry["command"].split()
    words = words[:words.index("-o")] + words[words.index("-c") + 1:]
    words = [word for word in words if os.path.basename(word) != "ccache"]
    run = subprocess.run(words + ["-E", "-CC", "-D__clang_analyzer__"], cwd=entry["directory"],
                         capture_output=True, timeout=60, check=False)
    if run.returncode:
        return None
    digest = hashlib.sha256(run.stdout)
    digest.update(" ".join(words + [checks]).encode())
    for path in (".clang-tidy", "tests/gates/clang_tidy.py"):
        digest.update(source.read(path).encode())
    return digest.hexdigest()


def check(build, path, entry, checks):
    """(whether `path` is clean, what clang-tidy said)."""
    mark = fingerprint(entry, checks)
    seen = os.path.join(build, "clang-tidy", mark) if mark else None
    if seen and os.path.exists(seen):
        return True, ""
    command = ["clang-tidy-14", "--quiet", "-p", build, "--warnings-as-errors=*",
               f"--checks={checks}"]
    command += [f"--extra-arg={flag}" for flag in EXTRA] + [path]
    run = subprocess.run(command, cwd=source.ROOT, capture_output=True, text=True, timeout=300,
                         check=False)
    if run.returncode:
        return False, run.stdout or run.stderr
    if seen:
        os.makedirs(os.path.dirname(seen), exist_ok=True)
        with open(seen, "w", encoding="utf-8"):
            pass
    return True, ""


def main(arguments):
    checks = ANALYZER if arguments[:1] == ["--analyzer"] else WITHOUT_ANALYZER
    arguments = arguments[arguments[:1] == ["--analyzer"]:]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    build = os.path.abspath(arguments[0])
    commands = read_commands(build)
    unknown = [path for path in arguments[1:] if path not in commands]
    # The largest first, so that no core waits for one at the end.
    paths = sorted(arguments[1:] or commands,
                   key=lambda path: -os.path.getsize(os.path.join(source.ROOT, path)))
    if unknown or not paths:
        print(f"clang_tidy: not in the build: {' '.join(unknown) or 'anything'}", file=sys.stderr)
        return 2
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for clean, text in pool.map(lambda path: check(build, path, commands[path], checks),
                                    paths):
            failed += not clean
            print(text, end="", flush=True)
    print(f"clang_tidy: {len(paths)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
