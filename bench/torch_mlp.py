#!/usr/bin/env python3
"""torch_mlp.py [--threads N] [--steps N] [--repetitions N] - the network of `cadre-bench --only mlp`
(784-512-512-10, relu, cross entropy, sgd, batches of 128) trained by PyTorch on the CPU, eagerly.

Prints one JSON object as `cadre-bench -o json` does. Exit code 77 when PyTorch is not installed.
"""
import argparse
import json
import statistics
import sys
import time

BATCH = 128
BATCHES = 8


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=9)
    return parser.parse_args()


def main():
    options = arguments()
    try:
        import torch
    except ImportError as error:
        print(f"skipped: no PyTorch here ({error})", file=sys.stderr)
        return 77
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    layers = (torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512),
              torch.nn.ReLU(), torch.nn.Linear(512, 10))
    model = torch.nn.Sequential(*layers)
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = [torch.rand(BATCH, 784) for _ in range(BATCHES)]
    batches = [(x, x[:, :10].argmax(1)) for x in inputs]

    def train(steps):
        value = 0.0
        begin = time.perf_counter()
        for step in range(steps):
            x, y = batches[step % BATCHES]
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            value = loss.item()
        return steps * BATCH / (time.perf_counter() - begin), value

    first = train(1)[1]
    train(options.steps)
    rates, losses = zip(*(train(options.steps) for _ in range(options.repetitions)))
    if not losses[-1] < first:
        print(f"training is wrong: the loss was {first}, now it is {losses[-1]}", file=sys.stderr)
        return 1
    figure = {"section": "mlp", "name": f"784-512-512-10, sgd, threads {options.threads}",
              "unit": "examples/s", "value": statistics.median(rates)}
    print(json.dumps({"schema": "cadre.bench/v1", "version": f"torch {torch.__version__}",
                      "figures": [figure], "failures": []}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
