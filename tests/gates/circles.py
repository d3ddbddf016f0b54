#!/usr/bin/env python3
"""circles.py BUILD - refuses circles between source files of the library that circles.txt does not have, and
circles between its folders.

Two files are in a circle when each calls something of the other, directly or by way of others: the linker's
symbols say so. A circle of circles.txt that has become smaller, or is gone, must become so there too: the list
only shrinks. Exit status 1 and a line for each fault.
"""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def objects(build):
    """(source from the root, object file) of the library's files."""
    for path in glob.glob(f"{build}/**/*.dir/**/*.c.o", recursive=True):
        match = re.match(r"(.*?)/CMakeFiles/[^/]*\.dir/(.*)\.o$", os.path.relpath(path, build))
        name = match and os.path.normpath(f"{match[1]}/{match[2]}")
        if name and re.match(r"(common|coordinator|ps|worker)/", name) and os.path.exists(f"{ROOT}/{name}"):
            yield name, path


def arrows(build):
    """source -> sources whose symbols it uses."""
    defined, used = {}, {}
    names = {path: name for name, path in objects(build)}
    # One process for all: starting one for each takes forty times as long.
    text = subprocess.run(["nm", "-P", "-A", *names], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        path, symbol, kind = line.split()[:3]
        name = names[path[:-1]] # without the colon
        if kind == "U":
            used.setdefault(name, set()).add(symbol)
        elif kind.isupper():
            defined[symbol] = name
    return {name: {defined[symbol] for symbol in symbols if symbol in defined} - {name}
            for name, symbols in used.items()}


def circles(graph):
    """Strongly connected sets of more than one source (Tarjan 1972), without recursion."""
    index, low, stack, found = {}, {}, [], []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = set(stack[stack.index(node):])
                    del stack[stack.index(node):]
                    if len(circle) > 1:
                        found.append(circle)
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(sorted(graph.get(following, ())))))
            elif following in stack:
                low[node] = min(low[node], index[following])
    return found


def of_folders(graph):
    """folder -> folders whose symbols its files use."""
    folders = {}
    for name, others in graph.items():
        mine = folders.setdefault(os.path.dirname(name), set())
        mine |= {os.path.dirname(other) for other in others} - {os.path.dirname(name)}
    return folders


def main(build):
    with open(f"{ROOT}/tests/gates/circles.txt", encoding="utf-8") as file:
        known = [set(line.split()) for line in file if line.strip() and not line.startswith("#")]
    graph = arrows(build)
    if len(graph) < 100:
        print(f"circles: {build} holds {len(graph)} files of the library: is it built?")
        return 1
    found = circles(graph)
    faults = [f"a new circle, or one with more files: {' '.join(sorted(circle))}"
              for circle in found if not any(circle <= one for one in known)]
    faults += [f"circles.txt has more than there is of: {' '.join(sorted(one))}"
               for one in known if one not in found and not any(one < circle for circle in found)]
    faults += [f"folders in a circle: {' '.join(sorted(circle))}" for circle in circles(of_folders(graph))]
    for fault in faults:
        print(f"circles: {fault}")
    print(f"circles: {len(graph)} files, {len(found)} circles of {sum(map(len, found))} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
