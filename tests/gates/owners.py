#!/usr/bin/env python3
"""owners.py - refuses writes to an object's fields in a file that is not the object's own.

An object of a core is a struct in a header X.h of CORES that has an X.c beside it, and a function there that takes it as
`T *self`. Its fields, and those of the structs that lie within it, are assigned to (=, +=, ++ and the like) in X.c alone.
Reading them is free, and so is making one by an initializer. owners.txt lists the exceptions; a line there that nothing
needs any more is a finding too.

What is written to is told by the text: from a variable's or parameter's declaration in the same function, field by field
along `a->b[i].c`. So a field that is written through a function's result, memcpy, snprintf, or the address of the field
goes unseen, and a struct without functions of its own (what is filled in and handed over) has no owner. Tests may write
anything: that they can build a state by hand is why these structs are open (docs/decisions.md).
"""
import fnmatch
import re
import sys

import source

CORES = ("coordinator/core", "ps/core", "worker/core")
LIST = "tests/gates/owners.txt"
TOKEN = re.compile(r"\w+|->|\+\+|--|<<=|>>=|[-+*/%&|^!=<>]=|&&|\|\||<<|>>|\S")
WRITES = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
DECLARATION = re.compile(r"\b(?:struct (\w+)|(\w+_t))\s+(\*{0,2})\s*(?:const )?(\w+)\s*(?=[=;,)\[])")
STRUCT = re.compile(r"^(?:typedef )?struct ?(\w*) \{$(.*?)^\}(?: (\w+))?;$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\s*(?:const )?(?:struct (\w+)|(\w+))\s+(\*{0,2})\s*(?:const )?(\w+)(?:\[[^;]*\])*;", re.MULTILINE)


def struct_name(name):
    """One name for `struct cadre_x` and its typedef, cadre_x_t."""
    return name if name.endswith("_t") else name + "_t"


def structs(text):
    """(name, {field: type}) of each struct that `text` defines"""
    for match in STRUCT.finditer(text):
        fields = {name: struct_name(tag or kind) for tag, kind, _, name in FIELD.findall(match.group(2))}
        yield match.group(3) or struct_name(match.group(1)), fields


def functions(text):
    """(number of the first line, head and body) of each function: `{` and `}` stand alone in the first column."""
    lines = text.split("\n")
    head = 0
    for number, line in enumerate(lines):
        if line == "{":
            end = next(i for i in range(number, len(lines)) if lines[i] == "}")
            yield head + 1, "\n".join(lines[head:end + 1])
        elif not line.strip() or line[0] in "#}":
            head = number + 1


def chain_before(tokens, end):
    """The postfix expression that ends before `end`: its name, then (operator, field) of each step; [] when it is none."""
    steps = []
    at = end
    while at > 0:
        while at > 0 and tokens[at - 1][0] == "]":
            depth = 0
            while at > 0:
                at -= 1
                depth += {"]": 1, "[": -1}.get(tokens[at][0], 0)
                if depth == 0:
                    break
        name = tokens[at - 1][0]
        if name == ")" and [token for token, _ in tokens[at - 4:at - 2]] == ["(", "*"]:
            return [tokens[at - 2][0]] + steps[::-1]
        if not re.match(r"[A-Za-z_]\w*$", name):
            return []
        if at < 2 or tokens[at - 2][0] not in ("->", "."):
            return [name] + steps[::-1]
        steps.append((tokens[at - 2][0], name))
        at -= 2
    return []


def end_of_chain(tokens, at):
    """One past the postfix expression that begins at `at`."""
    depth = 0
    while at < len(tokens):
        token = tokens[at][0]
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(token, 0)
        if depth < 0 or (depth == 0 and not re.match(r"\w+$|->$|\.$|[\])*]$", token)):
            break
        at += 1
    return at


def writes(text):
    """(line in the text, chain) of everything that is assigned to"""
    tokens = [(match.group(), text.count("\n", 0, match.start())) for match in TOKEN.finditer(text)]
    for at, (token, line) in enumerate(tokens):
        if token in WRITES:
            yield line, chain_before(tokens, at)
        elif token in ("++", "--"):
            is_after = at > 0 and re.match(r"\w+$|\]$", tokens[at - 1][0])
            yield line, chain_before(tokens, at if is_after else end_of_chain(tokens, at + 1))


def written_fields(chain, types, known):
    """(struct, field) of the field that is written, and of those that it lies within"""
    kind = types.get(chain[0]) if chain else None
    path = []
    for operator, field in chain[1:]:
        if operator == "->":
            path = []
        path.append((kind, field))
        kind = known.get(kind, {}).get(field)
    return path


def objects(headers):
    """struct -> its own file"""
    found = {}
    for path, text in headers.items():
        own = path[:-2] + ".c"
        if not source.exists(own):
            continue
        taken = set(re.findall(r"\((\w+_t) \*self\b", text))
        found.update({name: own for name, _ in structs(text) if name in taken})
    return found


def exceptions():
    """{(struct, pattern of files): 0} of owners.txt: to count what each is needed for"""
    lines = [line.split() for line in source.read(LIST).splitlines() if line.strip() and not line.startswith("#")]
    return {(fields[0], fields[1]): 0 for fields in lines}


def exception_for(excepted, kind, path):
    """The line of owners.txt that lets the file write the struct's fields, or None"""
    return next((line for line in excepted if line[0] == kind and fnmatch.fnmatch(path, line[1])), None)


def main():
    texts = {path: source.blank(source.read(path)) for path in source.files((".c", ".h"), source.LIBRARY_FOLDERS)}
    known = {name: fields for path, text in texts.items() if path.endswith(".h") for name, fields in structs(text)}
    owner = objects({path: text for path, text in texts.items() if path.startswith(CORES) and path.endswith(".h")})
    excepted = exceptions()
    findings = 0
    for path, text in texts.items():
        if not path.endswith(".c"):
            continue
        local = dict(known, **dict(structs(text)))
        for first, body in functions(text):
            types = {name: struct_name(tag or kind) for tag, kind, _, name in DECLARATION.findall(body)}
            for line, chain in writes(body):
                for kind, field in written_fields(chain, types, local):
                    if owner.get(kind, path) == path:
                        continue
                    exception = exception_for(excepted, kind, path)
                    if exception:
                        excepted[exception] += 1
                        continue
                    print(f"{path}:{first + line}: writes {field} of {kind}, which is {owner[kind]}'s")
                    findings += 1
    for (kind, path), count in excepted.items():
        if count == 0:
            print(f"{LIST}: {kind} {path}: nothing needs this any more")
            findings += 1
    print(f"owners: {len(owner)} objects")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
