"""Reads the project's sources for the gates: finds files, blanks comments and strings, finds functions.

Works without git and without a compiler, so that a tarball passes the same gates.
"""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("common", "proto-schemas", "coordinator", "ps", "worker", "tests", "bench", "examples")
LIBRARY_FOLDERS = ("common", "proto-schemas", "coordinator", "ps", "worker")


def files(suffixes, folders=FOLDERS):
    """Paths from the root, sorted, of the files in `folders` that end in one of `suffixes`."""
    found = []
    for folder in folders:
        for place, below, names in os.walk(os.path.join(ROOT, folder)):
            below[:] = [name for name in below if not name.startswith((".", "__pycache__"))]
            for name in names:
                if name.endswith(suffixes) and not name.startswith("."):
                    found.append(os.path.relpath(os.path.join(place, name), ROOT))
    return sorted(found)


def exists(path):
    return os.path.exists(os.path.join(ROOT, path))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blank(text):
    """`text` with comments and the inside of literals replaced by spaces, lines kept in place."""

    def erase(match):
        piece = match.group(0)
        if piece.startswith("/"):
            return re.sub(r"[^\n]", " ", piece)
        return piece[0] + " " * (len(piece) - 2) + piece[-1]

    return TOKEN.sub(erase, text)


def comments(text):
    """(line number, words) of each comment in `text`; its lines are joined, without stars and indents."""
    for match in TOKEN.finditer(text):
        if match.group(0).startswith("/"):
            words = re.sub(r"\n[ \t]*(?:\*(?!/)|//)?[ \t]*", " ", match.group(0))
            yield text.count("\n", 0, match.start()) + 1, words


def includes(path):
    """(line number, name with its quotes or angle brackets) of each include in `path`."""
    pattern = re.compile(r'^\s*#\s*include\s+([<"][^>"]+[>"])')
    lines = enumerate(read(path).splitlines(), 1)
    return [(number, match.group(1)) for number, line in lines if (match := pattern.match(line))]


def functions(text):
    """(name, line, lines in the body, parameter count) of each function definition in `text`.

    Relies on the format gate: a body is a `{` and a `}` alone in the first column.
    """
    lines = blank(text).split("\n")
    head = []
    for number, line in enumerate(lines):
        if line == "{":
            end = next((i for i in range(number, len(lines)) if lines[i] == "}"), len(lines))
            match = re.search(r"(\w+)\s*\((.*)\)\s*$", " ".join(head), re.DOTALL)
            if match:
                yield match.group(1), number + 1, end - number - 1, count_parameters(match.group(2))
            head = []
        elif not line.strip() or line.startswith(("#", "}")) or line.rstrip().endswith(";"):
            head = []
        else:
            head.append(line)


def count_parameters(text):
    if text.strip() in ("", "void"):
        return 0
    depth = 0
    count = 1
    for letter in text:
        depth += letter in "([{"
        depth -= letter in ")]}"
        count += letter == "," and depth == 0
    return count
