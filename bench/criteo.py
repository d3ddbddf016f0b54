#!/usr/bin/env python3
"""A click log in the format that Criteo has published, and the area under the curve to reach.

    criteo.py DIR [ROWS]    writes criteo_train.tsv and criteo_test.tsv, a sixth of ROWS (120,000)

13 whole numbers and 26 words of 8 hexadecimal digits, of which few are frequent (Zipf) and some are
missing. Whether there is a click is drawn from a logit: a weight for each number and word, and the
product of the hidden vectors of some pairs of words. It prints how well that logit itself tells the
clicks of the test rows: no model can do better, but by luck.
"""
import bisect
import itertools
import json
import math
import random
import sys

NUMBERS, WORDS, HIDDEN = 13, 26, 4
VOCABULARIES = [4, 8, 16, 30, 60, 100]
PAIRS = [(0, 7), (1, 12), (3, 18), (5, 6), (9, 14), (2, 20)]


class Column:
    """The words of a column, by rank, with a weight and a vector for each."""

    def __init__(self, rng, number):
        size = VOCABULARIES[number % len(VOCABULARIES)]
        self.words = [f"{rng.getrandbits(32):08x}" for _ in range(size)]
        self.weights = [rng.gauss(0, 0.35) for _ in range(size)]
        self.vectors = [[rng.gauss(0, 0.7) for _ in range(HIDDEN)] for _ in range(size)]
        self.shares = list(itertools.accumulate(1 / (rank + 1) ** 1.05 for rank in range(size)))

    def draw(self, rng):
        return bisect.bisect(self.shares, rng.random() * self.shares[-1])


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


def main(folder, rows):
    rng = random.Random(7)
    slopes = [rng.gauss(0, 0.25) for _ in range(NUMBERS)]
    columns = [Column(rng, number) for number in range(WORDS)]
    scored = []
    with open(f"{folder}/criteo_train.tsv", "w") as train, \
            open(f"{folder}/criteo_test.tsv", "w") as test:
        for row in range(rows):
            fields, logit = make_row(rng, slopes, columns)
            clicked = int(rng.random() < 1 / (1 + math.exp(-logit)))
            is_test = row % 6 == 5
            print(clicked, *fields, sep="\t", file=test if is_test else train)
            if is_test:
                scored.append((logit, clicked))
    print(json.dumps({"auc": area_under_curve(scored), "rows": len(scored)}))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 120_000)
