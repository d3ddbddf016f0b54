#!/usr/bin/env python3
"""torch_dlrm.py JOB --embeddings dense|sparse --threads N --seconds N - the model of the job file of
dlrm_beside_torch.py, trained by PyTorch on the CPU, in one process and eagerly.

`dense` computes a gradient for every row of the tables, as nn.Embedding does unless told otherwise;
`sparse` one for the rows of the batch. Prints one JSON object. Exit code 77 without PyTorch.
"""
import argparse
import json
import math
import sys
import time

NUMBERS, WORDS = 13, 26


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--embeddings", choices=("dense", "sparse"), default="dense")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    return parser.parse_args()


def read_clicks(path, buckets):
    """Labels, numbers and ids of the rows; an id is the word's number modulo `buckets`."""
    labels, numbers, ids = [], [], []
    with open(path, encoding="ascii") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            labels.append(float(fields[0]))
            numbers.append([math.log1p(max(float(text or 0), 0)) for text in fields[1:1 + NUMBERS]])
            ids.append([int(text, 16) % buckets if text else 0 for text in fields[1 + NUMBERS:]])
    return labels, numbers, ids


def make_model(torch, buckets, units, sparse):
    class Dlrm(torch.nn.Module):
        """Naumov et al. 2019, with the layers of the job file."""

        def __init__(self):
            super().__init__()
            linear = torch.nn.Linear
            self.tables = torch.nn.ModuleList(
                torch.nn.Embedding(buckets, units, sparse=sparse) for _ in range(WORDS))
            for table in self.tables:
                torch.nn.init.uniform_(table.weight, -0.05, 0.05)
            self.bottom = torch.nn.Sequential(linear(NUMBERS, 64), torch.nn.ReLU(),
                                              linear(64, units), torch.nn.ReLU())
            pairs = WORDS * (WORDS + 1) // 2
            self.top = torch.nn.Sequential(linear(pairs + WORDS * units, 64), torch.nn.ReLU(),
                                           linear(64, 32), torch.nn.ReLU(), linear(32, 1))
            self.below = torch.tril_indices(WORDS + 1, WORDS + 1, offset=-1)

        def forward(self, numbers, ids):
            rows = [table(ids[:, column]) for column, table in enumerate(self.tables)]
            vectors = torch.stack([self.bottom(numbers), *rows], dim=1)
            products = torch.bmm(vectors, vectors.transpose(1, 2))
            pairs = products[:, self.below[0], self.below[1]]
            return self.top(torch.cat([pairs, *rows], dim=1))[:, 0]
    return Dlrm()


def main():
    options = arguments()
    try:
        import torch
    except ImportError as error:
        print(f"skipped: no PyTorch here ({error})", file=sys.stderr)
        return 77
    with open(options.job, encoding="utf-8") as file:
        job = json.load(file)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    source = job["data"]["train"]
    embedding = next(layer for layer in job["model"]["layers"] if layer["type"] == "embedding")
    labels, numbers, ids = map(torch.tensor, read_clicks(source["path"], source["buckets"]))
    model = make_model(torch, source["buckets"], embedding["units"], options.embeddings == "sparse")
    optimizer = torch.optim.SGD(model.parameters(), lr=job["optimizer"]["learning_rate"])
    loss_of = torch.nn.BCEWithLogitsLoss()
    size = job["training"]["batch_size"]

    def step(at):
        rows = at * size % (len(labels) - size + 1)
        part = slice(rows, rows + size)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(numbers[part], ids[part]), labels[part])
        loss.backward()
        optimizer.step()
        return loss.item()

    step(0)
    begin, steps, losses = time.perf_counter(), 0, []
    while time.perf_counter() - begin < options.seconds:
        steps += 1
        losses.append(step(steps))
    seconds = time.perf_counter() - begin
    last = losses[-min(20, len(losses)):]
    print(json.dumps({"version": f"torch {torch.__version__}", "examples_per_s": steps * size / seconds,
                      "steps": steps, "loss": sum(last) / len(last)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
