#!/usr/bin/env python3
"""documents.py RULE ... - checks that what the documents name is there, one test per rule.

    links        relative links in Markdown lead to a file, and to a heading of it; README.md links to
                 each document of docs/
    paths        paths of this repository in code spans and code blocks exist
    commands     verbs and flags of our programs in code spans and code blocks exist
    citations    sources cite files and headings of docs/ that exist
    conformance  docs/conformance.md lists the behaviours that tests name, and no others
    metrics      docs/metrics.md has the metrics that the sources have, with the same words
    events       docs/log-events.md has the log events that the sources have
    migration    calls and job-file keys that docs/from_tensorflow.md names exist

Prints `file:line: what is wrong` for each finding and exits 1 when there is any.
"""
import glob
import os
import re
import sys

import source

TOP = source.FOLDERS + ("cmake", "deploy", "docs")
ROUTING_ID = re.compile(r"(?:ps|worker)/\d+/[0-9a-f]{16}$")
EXTENSIONS = (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".md", ".txt", ".cmake", ".supp")
INCLUDE_FOLDERS = ("common/include", "coordinator/include", "worker/include")
FENCE = re.compile(r"^ {0,3}(```|~~~)")
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
PROGRAM_FOLDERS = ("coordinator", "ps", "worker", "bench", "common")
COMMAND = re.compile(r"^\s*(?:\w+=\S+\s+|\$ )*(?:[\w./$-]*/)?cadre(-ps|-worker|-bench)?(?= )")
VAGUE = re.compile(r"(?<!docs/)\b(?:protocol|architecture|conformance)\.md|\b\w+\.md,? section \d")
CITATION = re.compile(r"\bdocs/[\w-]+\.md(?:#([\w-]+))?")
EVENT = re.compile(r"""(?:'[DIWE]'|\bCADRE_LOG_(?:DEBUG|INFO|WARN|ERROR)),\s*"""
                   r"""(?:[^;"]*?\?\s*"([a-z_]+)"\s*:\s*)?"([a-z_]+)\"""")
METRIC = re.compile(r'\bcadre_metrics_text_\w+\([^;"]*"(cadre_\w+)"')
SPAN = re.compile(r"`([^`\n]+)`")
PUBLIC_NAME = re.compile(r"\bcadre_\w+")
JOB_KEY = re.compile(r"(?:checkpoint|cluster|data|model|optimizer|strategy|training)\.[a-z_.]+")
BEHAVIOUR = re.compile(r"\b[A-Z]\w*\((?:\w+,\s*)?([A-Z]\d+)_\w+")


def documents():
    """Paths from the root of all documents."""
    return source.files((".md",), TOP) + [name for name in sorted(os.listdir(source.ROOT))
                                          if name.endswith(".md")]


def lines_of(path):
    """(number, line, whether it is code) of each line of a document."""
    fenced = False
    blank = True
    for number, line in enumerate(source.read(path).splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
            yield number, "", True
            continue
        # An indented line is code after an empty line or after code; elsewhere it goes on with a
        # list or a paragraph.
        indented = line.startswith("    ") and blank
        yield number, line, fenced or indented
        blank = not line.strip() or indented


def slug(heading):
    """The anchor that a heading gets."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path):
    """The anchors of all headings of a document."""
    found = {}
    for _, line, code in lines_of(path):
        match = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if match and not code:
            name = slug(match.group(1))
            count = found[name] = found.get(name, -1) + 1
            if count:
                found.setdefault(f"{name}-{count}", 0)
    return set(found)


def fault_of(target, document):
    """What is wrong with the link `target` of a document; None when nothing is."""
    name, _, anchor = target.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(document), name)) if name else document
    if path.startswith("..") or not source.exists(path):
        return f"{target}: there is no {path}"
    if anchor and anchor not in anchors(path):
        return f"{target}: there is no such heading"
    return None


def rule_links():
    start = source.read("README.md")
    for document in documents():
        if document.startswith("docs/") and f"]({document})" not in start:
            yield document, 1, "README.md does not link to it"
        text = "\n".join("" if code else re.sub(r"`[^`]*`", "", line)
                         for _, line, code in lines_of(document))
        for match in LINK.finditer(text):
            target = match.group(1)
            fault = None if re.match(r"[a-z]+:", target) else fault_of(target, document)
            if fault:
                yield document, text.count("\n", 0, match.start()) + 1, fault


def words_of(document):
    """(line number, word) of each word of code in a document."""
    for number, line, code in lines_of(document):
        for text in [line] if code else re.findall(r"`([^`]+)`", line):
            for word in text.split():
                yield number, word.strip("\"'(),;:").removesuffix(".")


def is_path(word):
    """Whether `word` can only be a path of this repository."""
    if "/" not in word or not re.fullmatch(r"[\w./*{},\[\]+-]+", word) or word[0] in "/.-":
        return False
    top = word.split("/")[0]
    elsewhere = top in ("build", "libdir") or re.search(r"[A-Z]{3}(?!DME)", word)
    return not ROUTING_ID.match(word) and (
        top in TOP or (word.endswith(EXTENSIONS + ("/",)) and not elsewhere))


def is_there(word, folder):
    """Whether there is such a file, folder or class, from the root or from `folder`."""
    names = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "*", word)
    return any(glob.glob(os.path.join(source.ROOT, place, name))
               for place in ("", folder) + INCLUDE_FOLDERS for name in (names, names + ".[ch]"))


def rule_paths():
    for document in documents():
        for number, word in words_of(document):
            if is_path(word) and not is_there(word, os.path.dirname(document)):
                yield document, number, f"{word}: there is no such path"


def program_words():
    """(verbs of cadre, words that may be flags) as the sources of the programs have them."""
    text = "\n".join(map(source.read, source.files((".c", ".h"), PROGRAM_FOLDERS)))
    verbs = re.findall(r'\{"([a-z]+)", \w+,', source.read("coordinator/cli/commands.c"))
    return (set(verbs),
            set(re.findall(r'"(?:--)?([a-z][a-z0-9-]*)"', text)))


def rule_commands():
    verbs, flags = program_words()
    for document in documents():
        for number, line, code in lines_of(document):
            for text in [line] if code else re.findall(r"`([^`]+)`", line):
                # What follows `--` or ends a command is another program's.
                for command in re.split(r" -- |[|;&]", text):
                    match = COMMAND.match(command)
                    if not match:
                        continue
                    verb = re.match(r" +([a-z]+)\b", command[match.end():])
                    if not match.group(1) and verb and verb.group(1) not in verbs:
                        yield document, number, f"cadre {verb.group(1)}: there is no such verb"
                    for flag in re.findall(r"(?<=[ \[])--([a-z][a-z0-9-]*)",
                                           command[match.end():]):
                        if flag not in flags:
                            yield document, number, f"--{flag}: there is no such flag"


def rule_citations():
    suffixes = (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ".yaml", ".conf")
    names = source.files(suffixes, TOP) + ["CMakeLists.txt", "Makefile"]
    for path in filter(lambda name: not name.startswith("tests/gates/"), names):
        for number, line in enumerate(source.read(path).splitlines(), 1):
            if VAGUE.search(line):
                yield path, number, "cite as docs/NAME.md#heading"
            for match in CITATION.finditer(line):
                name, _, anchor = match.group(0).partition("#")
                if not source.exists(name):
                    yield path, number, f"{name}: there is no such document"
                elif anchor and anchor not in anchors(name):
                    yield path, number, f"{match.group(0)}: there is no such heading"


def tested_behaviours():
    """id -> names of the files, without _test.c, whose tests begin with it."""
    found = {}
    for path in source.files(("_test.c",), ("tests",)):
        for name in BEHAVIOUR.findall(source.read(path)):
            found.setdefault(name, set()).add(os.path.basename(path)[:-len("_test.c")])
    return found


def rule_conformance():
    document = "docs/conformance.md"
    tested = tested_behaviours()
    listed = set()
    for number, line in enumerate(source.read(document).splitlines(), 1):
        row = re.match(r"\| ([A-Z]\d+) \|.*\|([^|]*)\|$", line)
        if row:
            name = row.group(1)
            files = set(re.findall(r"`([^`]+)`", row.group(2)))
            listed.add(name)
            for file in sorted(tested.get(name, set()) - files):
                yield document, number, f"{name} is tested in {file}, too"
            for file in sorted(files - tested.get(name, set())) or ([] if files else ["..."]):
                yield document, number, f"{name}: no test in {file} is named {name}_..."
    for name in sorted(set(tested) - listed):
        yield document, 1, f"{name} is missing, {min(tested[name])} tests it"


def rule_metrics():
    document = "docs/metrics.md"
    text = source.read(document)
    listed = {row.group(1): row for row in
              re.finditer(r"^\| `(cadre_\w+)` \|.*\| ([^|]+) \|$", text, re.M)}
    found = set()
    sources = ""
    for path in source.files((".c",), PROGRAM_FOLDERS):
        code = source.read(path)
        joined = re.sub(r'"\s*\n\s*"', "", code)
        sources += joined
        for name in METRIC.findall(joined):
            found.add(name)
            if f"`{name}" not in text:
                number = code.count("\n", 0, code.find(f'"{name}"')) + 1
                yield path, number, f"{name} is missing in {document}"
    for name, row in listed.items():
        number = text.count("\n", 0, row.start()) + 1
        if name not in found:
            yield document, number, f"{name}: there is no such metric"
        elif f'"{row.group(2)}"' not in sources:
            yield document, number, f"{name}: /metrics says it in other words"


def rule_events():
    document = "docs/log-events.md"
    text = source.read(document)
    listed = {row.group(1): text.count("\n", 0, row.start()) + 1
              for row in re.finditer(r"^\| `([a-z_]+)` \|", text, re.M)}
    sources = ""
    for path in source.files((".c",), ("coordinator", "common", "ps", "worker")):
        code = source.read(path)
        if path.startswith("coordinator/cli/"):
            continue
        sources += code
        for match in EVENT.finditer(code):
            for name in filter(None, match.groups()):
                if name not in listed:
                    number = code.count("\n", 0, match.start()) + 1
                    yield path, number, f"{name} is missing in {document}"
    for name, number in listed.items():
        if f'"{name}"' not in sources:
            yield document, number, f"{name}: there is no such event"


def rule_migration():
    document = "docs/from_tensorflow.md"
    headers = "".join(source.read(path) for path in source.files((".h",), INCLUDE_FOLDERS))
    public = set(PUBLIC_NAME.findall(headers))
    keys = set(SPAN.findall(source.read("docs/job-file.md")))
    for number, line, _ in lines_of(document):
        ours = line.split(" | ", 1)[-1]  # the first column has names of TensorFlow
        for span in SPAN.findall(ours):
            for name in PUBLIC_NAME.findall(span):
                if name not in public:
                    yield document, number, f"{name}: no public header has it"
            if JOB_KEY.fullmatch(span) and span not in keys:
                yield document, number, f"{span}: docs/job-file.md has no such key"


RULES = {name[5:]: rule for name, rule in globals().items() if name.startswith("rule_")}


def main(arguments):
    if not arguments or any(name not in RULES for name in arguments):
        print(f"documents: rules are {' '.join(RULES)}", file=sys.stderr)
        return 2
    findings = 0
    for name in arguments:
        for path, line, text in RULES[name]():
            print(f"{path}:{line}: {text}")
            findings += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
