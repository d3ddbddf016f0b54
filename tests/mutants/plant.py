"""plant - the edits that faults are made of, and how they find their place in the code.

A fault names a room (a folder, or the beginning of a path in it), a function in it, and edits of
that function; or a file, and edits of it. An edit is about tokens: line breaks, comments, the rest
of the function and the file that it stands in may change, and the fault still fits. What an edit
looks for stands there exactly once.

    drop("f")            the statement that calls f, or assigns to it, goes; within an expression the
                         call gives 0
    without("x == 1")    a condition loses this term, with the && or || that ties it
    swap("a + b", "a")   tokens in place of others
"""
import functools
import glob
import os
import re

TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+'
                   r'|->|\+\+|--|<<=?|>>=?|[-+*/%&|^!=<>]=|&&|\|\||\.\.\.|.', re.DOTALL)
# clang-format puts a definition's name at the beginning of a line, and its last brace too.
DEFINITION = re.compile(r"^(?:CADRE_\w+\s+)?(\w+)\((?:[^;{}()]|\([^()]*\))*\)\s*\{.*?^\}",
                        re.MULTILINE | re.DOTALL)
OPEN, CLOSE = "([{", ")]}"


class Unfit(Exception):
    """A fault whose place is not there any more."""


def tokens_of(text):
    """[(token, where it begins, where it ends)] without space and comments"""
    return [(match.group(), match.start(), match.end()) for match in TOKEN.finditer(text)
            if not match.group().isspace() and not match.group().startswith(("//", "/*"))]


def words_of(text):
    return [token for token, _, _ in tokens_of(text)]


def places_of(tokens, wanted):
    """The indexes at which the tokens `wanted` begin."""
    words = [token for token, _, _ in tokens]
    count = len(wanted)
    return [at for at in range(len(words) - count + 1) if words[at:at + count] == wanted]


def place_of(tokens, text):
    """(first, one past the last) of the tokens of `text`, which stand there once"""
    wanted = words_of(text)
    found = places_of(tokens, wanted)
    if len(found) != 1:
        raise Unfit(f"{text!r} stands {len(found)} times")
    return found[0], found[0] + len(wanted)


def closing(tokens, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index][0] in OPEN) - (tokens[index][0] in CLOSE)
        if depth == 0:
            return index
    raise Unfit("a bracket is not closed")


def replaced(text, tokens, first, last, new):
    """`text` with `new` for the tokens from `first` on up to `last`, without it"""
    end = tokens[last - 1][2] if last > first else tokens[first][1]
    return text[:tokens[first][1]] + new + text[end:]


def drop(name):
    def edit(text):
        tokens = tokens_of(text)
        first, after = place_of(tokens, name)
        begin = first
        while tokens[begin - 1][0] not in (";", "{", "}", ")", ",", "(", "&&", "||", "!", "return",
                                           "=", "?", ":", "else"):
            begin -= 1
        is_statement = tokens[begin - 1][0] in (";", "{", "}", ")", "else")
        if is_statement:
            end = begin
            while tokens[end][0] != ";":
                end = closing(tokens, end) + 1 if tokens[end][0] in OPEN else end + 1
            return replaced(text, tokens, begin, end + 1,
                            ";" if tokens[begin - 1][0] in (")", "else") else "")
        if tokens[after][0] != "(":
            raise Unfit(f"{name!r} is neither a statement nor a call")
        return replaced(text, tokens, first, closing(tokens, after) + 1, "0")
    return edit


def without(term):
    def edit(text):
        tokens = tokens_of(text)
        first, last = place_of(tokens, term)
        if tokens[first - 1][0] in ("&&", "||"):
            return replaced(text, tokens, first - 1, last, "")
        if tokens[last][0] in ("&&", "||"):
            return replaced(text, tokens, first, last + 1, "")
        raise Unfit(f"no && or || ties {term!r}")
    return edit


def swap(old, new):
    def edit(text):
        tokens = tokens_of(text)
        first, last = place_of(tokens, old)
        return replaced(text, tokens, first, last, f" {new} ")
    return edit


@functools.cache  # hundreds of faults look at the same files
def functions_of(text):
    """[(name, where it begins, where it ends)] of the functions that the text defines"""
    return [(match.group(1), match.start(), match.end()) for match in DEFINITION.finditer(text)]


@functools.cache
def names_in(text):
    return {word for word in words_of(text) if word[0].isalpha()}


def sources(tree, where):
    """{path: text} of the file, or of the files of the room"""
    texts = {}
    begin = os.path.join(tree, where.split(" ")[0])
    paths = {begin} if " " not in where else {*glob.glob(begin + "*"),
                                              *glob.glob(f"{begin}/**/*", recursive=True)}
    for path in sorted(paths):
        if path.endswith((".c", ".h", ".cu", ".cuh")):
            with open(path, encoding="utf-8") as file:
                texts[path] = file.read()
    return texts


def place(texts, where):
    """(path, begin, end) of the function, or of the whole file"""
    if " " not in where:
        (path, text), = texts.items()
        return path, 0, len(text)
    room, function = where.split(" ")
    found = [(path, begin, end) for path, text in texts.items()
             for name, begin, end in functions_of(text) if name == function]
    if len(found) != 1:
        raise Unfit(f"{room} has {len(found)} functions {function}")
    return found[0]


def plant(tree, mutant):
    """{path: (its text, its text with the fault)}; Unfit says what is not there."""
    originals, changed = {}, {}
    where = None
    for item in mutant[2:]:
        if isinstance(item, str):
            where = item
            continue
        texts = sources(tree, where)
        originals.update(texts)
        texts.update({path: text for path, text in changed.items() if path in texts})
        path, begin, end = place(texts, where)
        text = texts[path]
        try:
            changed[path] = text[:begin] + item(text[begin:end]) + text[end:]
        except Unfit as unfit:
            raise Unfit(f"{where} in {os.path.relpath(path, tree)}: {unfit}") from None
    return {path: (originals[path], text) for path, text in changed.items()}


def brings_words(original, changed):
    """Whether a function of the text names something that it did not name before."""
    def names(text):
        return {name: names_in(text[begin:end]) for name, begin, end in functions_of(text)}
    before = names(original)
    return any(words - before.get(function, set()) for function, words in names(changed).items())
