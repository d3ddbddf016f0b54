#!/usr/bin/env python3
"""tidy.py RULE ... - checks the source tree against the project's rules, one test per rule.

Prints `file:line: what is wrong` for each finding and exits 1 when there is any.
"""
import fnmatch
import os
import re
import sys

import source

LINES_MAX = 1000
LINES_WARN = 500
FUNCTION_LINES_MAX = 100
PARAMETERS_MAX = 6
COLUMNS_MAX = 100

BANNED_CALLS = {
    "strcpy": "use snprintf or memcpy with the size",
    "strcat": "use snprintf",
    "sprintf": "use snprintf",
    "vsprintf": "use vsnprintf",
    "gets": "use fgets",
    "atoi": "use strtol and check it",
    "atol": "use strtol and check it",
    "atof": "use strtod and check it",
    "strtok": "use strcspn",
    "rand": "use common/base/random.h",
    "srand": "use common/base/random.h",
    "random": "use common/base/random.h",
    "system": "use posix_spawn",
    "alloca": "use a bounded buffer",
    "sleep": "wait for the condition with a deadline",
    "usleep": "wait for the condition with a deadline",
    "nanosleep": "wait for the condition with a deadline",
    "zclock_sleep": "wait for the condition with a deadline",
}

UNFINISHED_WORDS = re.compile(
    r"\b(?:TODO|FIXME|XXX|HACK)\b|\bnot (?:yet )?implemented\b|\bstub(?:bed)?\b|\bplaceholder\b")

HOUSE_WORDS = "tests/gates/house_words.txt"

# What a core file may not reach, neither itself nor through a header of ours.
SHELL_HEADERS = re.compile(
    r"^<(zmq|czmq|zmq_utils|lmdb|time|threads|pthread|unistd|fcntl|poll|signal|spawn|dirent|"
    r"semaphore|sched|sys/(time|socket|eventfd|epoll|mman|stat|wait|file|timerfd|random)|"
    r"netinet/.*|arpa/.*|netdb|net/.*)\.h>$")
# What remains reachable through headers a core file may include, such as stdio.h for snprintf.
SHELL_CALLS = re.compile(
    r"(?<![\w.>])(clock_gettime|time|clock|fopen|fdopen|freopen|fread|fwrite|fclose|fprintf|"
    r"printf|puts|perror|remove|rename|tmpfile|getenv|secure_getenv)\s*\(")

# Folders that are core, and files of other folders: state machines and plain data without sockets, threads, clocks or
# files.
CORE = ("proto-schemas", "common/base", "common/tensor", "common/spec", "common/graph", "common/wire",
        "common/session", "coordinator/core", "coordinator/cli/launch/launcher_core.[ch]", "ps/core", "worker/core")

CORE_ROOMS = "closures effects catalogue members shards checkpoint provisioning dispatch clients"  # from below
CORE_BELOW = "base tensor spec wire keys checkpoint coordinator/include"


def rooms(names):
    return "".join(f" coordinator/core/{name}" for name in names.split())


# Folder -> the folders below it, whose headers it may include; and its own. No arrow runs back up. A folder
# that is not here is part of the one that it lies in. Public headers are below everything of their own.
BELOW = {
    "proto-schemas": "",
    "common/include": "",
    "common/base": "",
    "common/system": "base",
    "common/tensor": "base",
    "common/spec": "base tensor",
    "common/graph": "base tensor spec",
    "common/wire": "base tensor spec proto-schemas",
    "common/session": "base wire",
    "common/keys": "base system wire",
    "common/net": "base system tensor wire keys",
    "common/http": "base system net",
    "common/checkpoint": "base system tensor spec",
    "ps/core/values": "base tensor spec wire",
    "ps/core/table": "base tensor spec wire checkpoint ps/core/values",
    "ps/core": "base tensor spec wire session checkpoint ps/core/values ps/core/table",
    "ps": "base system wire keys net http checkpoint ps/core ps/core/values",
    "worker/include": "",
    "worker/core": "base tensor spec wire session worker/include",
    "worker/data": "base system tensor spec",
    "worker/device": "base system tensor spec graph",
    "worker/device/cuda": "base graph worker/device",
    "worker/slot": "base system tensor spec graph wire net worker/include worker/core worker/data worker/device",
    "worker": "base system spec wire keys net http worker/include worker/core worker/slot worker/data worker/device",
    "coordinator/include": "",
    "coordinator/core/closures": CORE_BELOW,
    "coordinator/core/effects": CORE_BELOW + rooms("closures"),
    "coordinator/core/catalogue": CORE_BELOW + rooms("closures effects"),
    "coordinator/core/members": CORE_BELOW + rooms("closures effects catalogue"),
    "coordinator/core/shards": CORE_BELOW + rooms("closures effects catalogue members"),
    "coordinator/core/checkpoint": CORE_BELOW + rooms("closures effects catalogue members shards"),
    "coordinator/core/provisioning": CORE_BELOW + rooms("closures effects catalogue members shards checkpoint"),
    "coordinator/core/dispatch": CORE_BELOW + rooms("closures effects catalogue members shards checkpoint provisioning"),
    "coordinator/core/clients": CORE_BELOW + rooms("closures effects catalogue members shards"),
    "coordinator/core": CORE_BELOW + rooms(CORE_ROOMS),
    "coordinator/local": "base system net ps worker/include worker/core worker/slot worker/device worker",
    "coordinator": "base system spec wire keys net http checkpoint coordinator/include coordinator/core coordinator/local"
                   + rooms(CORE_ROOMS),
    "coordinator/api": "base checkpoint system tensor spec graph worker/device worker/slot coordinator/include "
                       "coordinator/core coordinator"
                       + rooms(CORE_ROOMS),
    "coordinator/client": "base system tensor spec wire keys net coordinator/include coordinator",
    "coordinator/cli/terminal": "base system coordinator/include",
    "coordinator/cli/train": "base system spec graph keys checkpoint coordinator/include coordinator/cli/terminal",
    "coordinator/cli/launch": "base system spec net coordinator/include coordinator/cli/terminal "
                              "coordinator/cli/train",
    "coordinator/cli": "base system wire keys net http checkpoint worker/data coordinator/include "
                       "coordinator/cli/terminal coordinator/cli/train coordinator/cli/launch",
}


def allowed(rule, path, word):
    """Whether allowed.txt has a line `rule path word reason`."""
    for line in source.read("tests/gates/allowed.txt").splitlines():
        fields = line.split(None, 3)
        if len(fields) == 4 and not line.startswith("#"):
            if (fields[0], fields[2]) == (rule, word) and fnmatch.fnmatch(path, fields[1]):
                return True
    return False


def rule_sizes():
    for path in source.files((".c", ".h", ".cu", ".cuh")):
        text = source.read(path)
        lines = text.splitlines()
        if len(lines) > LINES_MAX:
            yield path, 1, f"{len(lines)} lines, at most {LINES_MAX}"
        elif len(lines) > LINES_WARN:
            print(f"{path}: note: {len(lines)} lines; is there a second noun in it?")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                yield path, number, f"{len(line)} columns, at most {COLUMNS_MAX}"
        for name, line, length, parameters in source.functions(text):
            if length > FUNCTION_LINES_MAX:
                yield path, line, f"{name} has {length} lines, at most {FUNCTION_LINES_MAX}"
            if (parameters > PARAMETERS_MAX and name not in ("Test", "ParameterizedTest")
                    and not allowed("parameters", path, name)):
                yield path, line, f"{name} has {parameters} parameters, at most {PARAMETERS_MAX}"


def rule_banned():
    call = re.compile(r"(?<![\w.>])(" + "|".join(BANNED_CALLS) + r")\s*\(")
    for path in source.files((".c", ".h", ".cu")):
        for number, line in enumerate(source.blank(source.read(path)).splitlines(), 1):
            for match in call.finditer(line):
                name = match.group(1)
                if not allowed("banned", path, name):
                    yield path, number, f"{name} is banned: {BANNED_CALLS[name]}"


def house_words():
    """What is wrong with uses of words that are ours and not the field's, in comments of the product.

    house_words.txt has a line `uses pattern: what to say instead` for each; the number only shrinks."""
    texts = [(path, list(source.comments(source.read(path))))
             for path in source.files((".c", ".h", ".cu", ".cuh"), source.LIBRARY_FOLDERS)]
    for line, entry in enumerate(source.read(HOUSE_WORDS).splitlines(), 1):
        if not entry.strip() or entry.startswith("#"):
            continue
        count, rest = entry.split(None, 1)
        pattern, instead = rest.split(": ", 1)
        house = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
        uses = [(path, number, match.group(0)) for path, found in texts for number, words in found
                for match in house.finditer(words)]
        if len(uses) > int(count):
            for path, number, words in uses:
                yield path, number, f'"{words}" (a use of {len(uses)}, at most {count}): {instead}'
        elif len(uses) < int(count):
            yield HOUSE_WORDS, line, f"{count} uses of {pattern}, there are {len(uses)}: write that"


def rule_words():
    yield from house_words()
    code = (".c", ".h", ".cu", ".py", ".sh", ".cmake")
    elsewhere = re.compile(r"(?<![\w.])/(?:work|farm)/|\.\./shared")
    names = source.files(code + (".txt", ".json", ".md", ".yaml", ".conf"),
                         source.FOLDERS + ("deploy", "docs", "cmake"))
    names += filter(source.exists,
                    ("README.md", "SECURITY.md", "CONTRIBUTING.md", "Makefile", "CMakeLists.txt"))
    for path in names:
        if path.startswith("tests/gates/"):
            continue
        for number, line in enumerate(source.read(path).splitlines(), 1):
            word = UNFINISHED_WORDS.search(line) if path.endswith(code) else None
            if word and not allowed("words", path, word.group(0)):
                yield path, number, f"unfinished: {word.group(0)}"
            if place := elsewhere.search(line):
                yield path, number, f"a path that is on no user's machine: {place.group(0)}"


def find_header(name, path):
    """The file of ours that the include `name` in `path` means, from the root; None for others."""
    inside = name[1:-1]
    if name[0] == '"':
        candidates = [inside, os.path.join(os.path.dirname(path), inside)]
    else:
        candidates = [f"{folder}/include/{inside}" for folder in ("common", "coordinator", "worker")]
    return next(filter(source.exists, candidates), None)


def own_header(path):
    """The header that the .c file `path` belongs to: beside it, or the one that a test is about."""
    return re.sub(r"^tests/(.*)_test\.c$", r"\1.c", path)[:-2] + ".h"


def layer(path):
    """The folder of BELOW that `path` belongs to; None outside of the library."""
    folder = os.path.dirname(path)
    while folder and folder not in BELOW:
        folder = os.path.dirname(folder)
    return folder or None


def below(folder):
    """Folders whose headers those of `folder` may include."""
    names = BELOW[folder].split() + ["include"]
    return {folder} | {name if name in BELOW else f"common/{name}" for name in names}


def include_faults(path, name):
    """What is wrong with the one include `name` of `path`."""
    top = path.split("/")[0]
    header = find_header(name, path)
    if name[0] == '"':
        if header != name[1:-1] or ".." in name:
            yield f"{name} is not a path from the root"
        if top == "examples":
            yield "examples see public headers only"
    if header and layer(path) and layer(header) not in below(layer(path)):
        yield f"{layer(path)} must not include {header}: see BELOW"
    if name == "<cblas.h>" and path != "worker/device/blas.c":
        yield "only worker/device/blas.c includes cblas.h"


def rule_includes():
    for path in source.files((".c", ".h", ".cu", ".cuh")):
        names = source.includes(path)
        if path.endswith(".c") and source.exists(own_header(path)):
            wanted = f'"{own_header(path)}"'
            if not names or names[0][1] != wanted:
                yield path, names[0][0] if names else 1, f"the first include must be {wanted}"
        for number, name in names:
            for fault in include_faults(path, name):
                yield path, number, fault


def reach(path, seen):
    """(header name, file that includes it) of everything `path` includes, through our headers."""
    for _, name in source.includes(path):
        yield name, path
        header = find_header(name, path)
        if header and header not in seen:
            seen.add(header)
            yield from reach(header, seen)


def is_core(path):
    return layer(path) in CORE or any(fnmatch.fnmatch(path, pattern) for pattern in CORE)


def rule_core():
    for path in source.files((".c", ".h"), source.LIBRARY_FOLDERS):
        if not is_core(path):
            continue
        for name, place in reach(path, set()):
            if SHELL_HEADERS.match(name) and not allowed("core", place, name):
                yield path, 1, f"a core file reaches {name} (included by {place})"
        for number, line in enumerate(source.blank(source.read(path)).splitlines(), 1):
            for match in SHELL_CALLS.finditer(line):
                if allowed("core", path, match.group(1)):
                    continue
                yield path, number, f"a core file calls {match.group(1)}"


def rule_headers():
    """Guards, the contract at the top, C linkage and public includes only in public headers."""
    for path in source.files((".h",), source.LIBRARY_FOLDERS):
        text = source.read(path)
        if slice := re.search(r"_(?:internal|state|shell)\.h$", path):
            yield path, 1, f"no header is named *{slice.group(0)}: one noun, one header, one file that writes it"
        if not text.startswith("/*"):
            yield path, 1, "a header opens with a comment: what the object is, owner, thread"
        guard = re.sub(r"\W", "_", re.sub(r".*/include/", "", path)).upper()
        guard = guard if guard.startswith("CADRE_") else "CADRE_" + guard
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield path, 1, f"the include guard must be {guard}"
        if "/include/" not in path:
            continue
        if 'extern "C" {' not in text:
            yield path, 1, 'a public header has extern "C"'
        for number, name in source.includes(path):
            if name[0] == '"':
                yield path, number, "a public header includes public headers only"


def nested_ternaries(text):
    """Lines on which a `?` stands within an arm of another `?:`."""
    text = source.blank(text)
    for first in (at for at, letter in enumerate(text) if letter == "?"):
        depth = 0
        for at in range(first + 1, len(text)):
            depth += text[at] in "([{"
            depth -= text[at] in ")]}"
            if depth < 0 or (depth == 0 and text[at] in ";,"):
                break
            if text[at] == "?":
                yield text.count("\n", 0, at) + 1
                break


def rule_ternaries():
    for path in source.files((".c", ".h", ".cu", ".cuh"), source.LIBRARY_FOLDERS):
        for line in nested_ternaries(source.read(path)):
            yield path, line, "a ternary within a ternary: early return, or a function of its own"


RULES = {name[5:]: rule for name, rule in globals().items() if name.startswith("rule_")}


def main(arguments):
    if not arguments or any(name not in RULES for name in arguments):
        print(f"tidy: rules are {' '.join(RULES)}", file=sys.stderr)
        return 2
    findings = 0
    for name in arguments:
        for path, line, text in RULES[name]():
            print(f"{path}:{line}: {text}")
            findings += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
