#!/usr/bin/env python3
"""Skip-gram with negative sampling of a text in one process, in NumPy.

    skip_gram.py TEXT         trains on TEXT what examples/skip_gram.json trains, and prints a line
                              of JSON: the loss on the rows held out
    skip_gram.py words TEXT   prints the words by their ids, a word a line

The rows are those that docs/data.md says of format "text", made here by themselves, with other
random numbers (Mikolov and others 2013, "Distributed representations of words and phrases"); the
optimizer is Adam as Keras has it, one batch after the other, in single precision as there.
"""
import collections
import json
import re
import sys

# as examples/skip_gram.json has them
VOCABULARY, MIN_COUNT, SUBSAMPLE, WINDOW, NEGATIVES, HELD_OUT = 4000, 5, 1e-3, 4, 5, 0.05
FACTORS, BATCH, EPOCHS, RATE = 32, 2048, 5, 0.002


def read(path):
    """The words of each passage, and all words by falling frequency with their counts."""
    passages, counts = [[]], collections.Counter()
    with open(path, encoding="latin-1") as file:
        for line in file:
            words = re.findall("[a-z0-9'\x80-\xff]+", re.sub("[A-Z]", lambda m: m[0].lower(), line))
            counts.update(words)
            passages[-1] += words
            if not words:
                passages.append([])
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0].encode("latin-1")))
    return passages, [item for item in ranked if item[1] >= MIN_COUNT][:VOCABULARY]


def make_rows(passages, ranked, rng):
    """Centers, contexts and labels of all rows."""
    import numpy as np
    ids = {word: number for number, (word, _) in enumerate(ranked)}
    counts = np.array([count for _, count in ranked], dtype=float)
    words, passage = [], []
    for number, text in enumerate(passages):
        known = [ids[word] for word in text if word in ids]
        words += known
        passage += [number] * len(known)
    words, passage = np.array(words), np.array(passage)
    ratio = SUBSAMPLE / (counts / counts.sum())[words]
    stays = rng.random(len(words)) < ratio ** 0.5 + ratio
    words, passage = words[stays], passage[stays]
    reach = rng.integers(1, WINDOW + 1, len(words))
    centers, contexts = [], []
    for distance in range(1, WINDOW + 1):
        near = passage[:-distance] == passage[distance:]
        left, right = words[:-distance], words[distance:]
        for center, context, own in ((left, right, reach[:-distance]),
                                     (right, left, reach[distance:])):
            chosen = near & (own >= distance)
            centers.append(center[chosen])
            contexts.append(context[chosen])
    centers, contexts = np.concatenate(centers), np.concatenate(contexts)
    shares = counts ** 0.75
    drawn = rng.choice(len(counts), (len(centers), NEGATIVES), p=shares / shares.sum())
    other = drawn != contexts[:, None]
    every = np.repeat(centers, NEGATIVES).reshape(drawn.shape)[other]
    return (np.concatenate([centers, every]), np.concatenate([contexts, drawn[other]]),
            np.concatenate([np.ones(len(centers)), np.zeros(len(every))]).astype(np.float32))


class Adam:
    def __init__(self, shape):
        import numpy as np
        self.m, self.v = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.t = 0

    def step(self, w, g):
        import numpy as np
        self.t += 1
        self.m += np.float32(0.1) * (g - self.m)
        self.v += np.float32(0.001) * (g * g - self.v)
        rate = np.float32(RATE * (1 - 0.999 ** self.t) ** 0.5 / (1 - 0.9 ** self.t))
        w -= rate * self.m / (np.sqrt(self.v) + np.float32(1e-7))


def main(path):
    import numpy as np
    rng = np.random.default_rng(1)
    passages, ranked = read(path)
    centers, contexts, labels = make_rows(passages, ranked, rng)
    order = rng.permutation(len(labels))
    held, rest = np.split(order, [int(HELD_OUT * len(order))])
    table = rng.uniform(-0.05, 0.05, (2 * VOCABULARY, FACTORS)).astype(np.float32)
    places = np.arange(FACTORS)
    optimizer = Adam(table.shape)
    for _ in range(EPOCHS):
        rng.shuffle(rest)
        for first in range(0, len(rest), BATCH):
            rows = rest[first:first + BATCH]
            i, o = centers[rows], contexts[rows] + VOCABULARY
            v, u = table[i], table[o]
            slope = (1 / (1 + np.exp(-(v * u).sum(1))) - labels[rows]) / len(rows)
            at = (np.concatenate([i, o])[:, None] * FACTORS + places).ravel()
            change = (np.concatenate([u, v]) * np.tile(slope, 2)[:, None]).ravel()
            gradient = np.bincount(at, change, table.size).reshape(table.shape)
            optimizer.step(table, gradient.astype(np.float32))
    logits = (table[centers[held]] * table[contexts[held] + VOCABULARY]).sum(1)
    loss = np.logaddexp(0, logits) - labels[held] * logits
    print(json.dumps({"loss": float(loss.mean()), "rows": len(labels)}))


if __name__ == "__main__":
    if sys.argv[-1].startswith("-"):
        sys.exit(__doc__)
    elif len(sys.argv) == 3 and sys.argv[1] == "words":
        print("\n".join(word for word, _ in read(sys.argv[2])[1]))
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
