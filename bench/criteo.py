#!/usr/bin/env python3
"""A click log in the format that Criteo has published, and the area under the curve to reach.

    criteo.py DIR [ROWS] [--words N]    writes criteo_train.tsv and criteo_test.tsv, a sixth of ROWS
                                        (120,000)

13 whole numbers and 26 words of 8 hexadecimal digits, of which few are frequent (Zipf) and some are
missing. A column has 4 to 100 words, all of them seen often; with --words it has N (without a number
1,000,000), of which most that are seen are seen once, as in a log. Whether there is a click is drawn from a logit: a weight for each number and word, and the
product of the hidden vectors of some pairs of words. It prints how well that logit itself tells the
clicks of the test rows: no model can do better, but by luck. With --words none gets near: nobody can
learn the weight of a word that he has not seen. Then it also prints how many words of all columns
the rows to train on have, and how many of these once.
"""
import argparse
import bisect
import collections
import itertools
import json
import math
import os
import random

NUMBERS, WORDS, HIDDEN = 13, 26, 4
VOCABULARIES = [4, 8, 16, 30, 60, 100]
ZIPF = 1.05
MANY_WORDS = 1_000_000
PAIRS = [(0, 7), (1, 12), (3, 18), (5, 6), (9, 14), (2, 20)]


class Column:
    """The words of a column, by rank, with a weight and a vector for each."""

    def __init__(self, rng, number):
        size = VOCABULARIES[number % len(VOCABULARIES)]
        self.words = [f"{rng.getrandbits(32):08x}" for _ in range(size)]
        self.weights = [rng.gauss(0, 0.35) for _ in range(size)]
        self.vectors = [[rng.gauss(0, 0.7) for _ in range(HIDDEN)] for _ in range(size)]
        self.shares = shares_of(size)

    def draw(self, rng):
        return bisect.bisect(self.shares, rng.random() * self.shares[-1])


class LongColumn:
    """A column of very many words: one has its weight and vector when it is drawn first."""

    def __init__(self, number, shares):
        self.number = number
        self.shares = shares
        self.words, self.weights, self.vectors = {}, {}, {}

    def draw(self, rng):
        rank = bisect.bisect(self.shares, rng.random() * self.shares[-1])
        if rank not in self.words:
            own = random.Random(self.number * len(self.shares) + rank)
            self.words[rank] = f"{(rank * 2654435761 + self.number) % 2 ** 32:08x}"  # each another
            self.weights[rank] = own.gauss(0, 0.35)
            self.vectors[rank] = [own.gauss(0, 0.7) for _ in range(HIDDEN)]
        return rank


def shares_of(size):
    return list(itertools.accumulate(1 / (rank + 1) ** ZIPF for rank in range(size)))


def make_columns(rng, words):
    if words == 0:
        return [Column(rng, number) for number in range(WORDS)]
    shares = shares_of(words)
    return [LongColumn(number, shares) for number in range(WORDS)]


def make_row(rng, slopes, columns):
    """Returns the fields of a row and the logit of a click."""
    logit = -1.2
    fields = []
    for slope in slopes:
        number = int(rng.lognormvariate(1.5, 1.2)) - 1
        missing = rng.random() < 0.1
        fields.append("" if missing else str(number))
        logit += 0 if missing else slope * (math.log1p(max(number, 0)) - 1.5)
    chosen = []
    for column in columns:
        missing = rng.random() < 0.03
        word = None if missing else column.draw(rng)
        chosen.append(word)
        fields.append("" if missing else column.words[word])
        logit += 0 if missing else column.weights[word]
    for left, right in PAIRS:
        a, b = chosen[left], chosen[right]
        if a is not None and b is not None:
            logit += sum(p * q for p, q in
                         zip(columns[left].vectors[a], columns[right].vectors[b]))
    return fields, logit


def area_under_curve(scored):
    """Mann-Whitney: the share of pairs of a click and a row without in the right order."""
    clicks = total = 0
    for rank, (_, clicked) in enumerate(sorted(scored), 1):
        clicks += clicked
        total += rank if clicked else 0
    return (total - clicks * (clicks + 1) / 2) / (clicks * (len(scored) - clicks))


def main(folder, rows, words):
    rng = random.Random(7)
    slopes = [rng.gauss(0, 0.25) for _ in range(NUMBERS)]
    columns = make_columns(rng, words)
    scored = []
    seen = collections.Counter()
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/criteo_train.tsv", "w") as train, \
            open(f"{folder}/criteo_test.tsv", "w") as test:
        for row in range(rows):
            fields, logit = make_row(rng, slopes, columns)
            clicked = int(rng.random() < 1 / (1 + math.exp(-logit)))
            is_test = row % 6 == 5
            print(clicked, *fields, sep="\t", file=test if is_test else train)
            if is_test:
                scored.append((logit, clicked))
            elif words:
                seen.update((i, word) for i, word in enumerate(fields[NUMBERS:]) if word)
    result = {"auc": area_under_curve(scored), "rows": len(scored)}
    if words:
        result |= {"words": len(seen), "once": sum(count == 1 for count in seen.values())}
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("rows", metavar="ROWS", type=int, nargs="?", default=120_000)
    parser.add_argument("--words", metavar="N", type=int, nargs="?", default=0, const=MANY_WORDS)
    given = parser.parse_args()
    main(given.folder, given.rows, given.words)
