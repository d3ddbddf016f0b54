#!/usr/bin/env python3
"""dlrm_beside_torch.py --venv DIR [OPTION...] - a DLRM with 26 tables of 16 numbers a row, ten million rows in
all, trained by `cadre run` with one and two workers and by PyTorch in one process, in turn on this machine.

    python3 -m venv /tmp/torch
    /tmp/torch/bin/pip install torch
    bench/dlrm_beside_torch.py --venv /tmp/torch

The click log is made up: words by Zipf's law (1.05). Both read it into memory before they train, with the
same layers, batches and sgd. PyTorch trains with dense gradients of its embeddings, its default, and with sparse
ones. Its threads are as many as the CPUs. stdout gets a table and, as its last line, one JSON object.
Exit status: 0 when all was measured, 1 when a run failed, 2 for wrong usage, 77 where DIR has no PyTorch.
"""
import argparse
import bisect
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
SKIPPED = 77
RUN_TIMEOUT_S = 900
NUMBERS, WORDS, UNITS = 13, 26, 16


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", metavar="DIR", required=True, help="virtual environment with torch")
    parser.add_argument("--bin", metavar="DIR", default=os.path.join(SOURCE, "build", "release", "bin"))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of all tables together")
    parser.add_argument("--examples", type=int, default=100_000, help="lines of the click log")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15, help="of each measurement")
    return parser.parse_args()


def write_clicks(path, examples, words):
    """Writes a click log whose columns have `words` words each; the label follows from some of them."""
    rng = random.Random(7)
    shares = list(itertools.accumulate(1 / (rank + 1) ** 1.05 for rank in range(words)))
    with open(path, "w", encoding="ascii") as file:
        for _ in range(examples):
            ranks = [bisect.bisect(shares, rng.random() * shares[-1]) for _ in range(WORDS)]
            numbers = [int(rng.lognormvariate(1.5, 1.2)) for _ in range(NUMBERS)]
            clicked = int(rng.random() < (0.7 if (ranks[0] + ranks[1]) % 2 else 0.2))
            texts = [f"{(rank * 2654435761 + column) & 0xffffffff:08x}" for column, rank in enumerate(ranks)]
            print(clicked, *numbers, *texts, sep="\t", file=file)


def job_of(clicks, buckets, workers, options):
    """The job file: torch_dlrm.py reads the same one."""
    return {
        "seed": 1, "checkpoint": {"dir": "none"},
        "data": {"train": {"format": "criteo", "path": clicks, "label_kind": "binary", "buckets": buckets}},
        "model": {"type": "layers", "layers": [
            {"type": "dense", "units": 64, "activation": "relu", "columns": [0, NUMBERS]},
            {"type": "dense", "units": UNITS, "activation": "relu", "name": "numbers"},
            {"type": "embedding", "units": UNITS, "columns": [NUMBERS, WORDS], "name": "words",
             "fields": [buckets] * WORDS},
            {"type": "interaction", "from": ["numbers", "words"], "name": "pairs"},
            {"type": "flatten", "from": "words", "name": "rows"},
            {"type": "concat", "from": ["pairs", "rows"]},
            {"type": "dense", "units": 64, "activation": "relu"},
            {"type": "dense", "units": 32, "activation": "relu"}]},
        "optimizer": {"type": "sgd", "learning_rate": 0.05},
        "training": {"epochs": 100000, "batch_size": options.batch, "stop": {"seconds": options.seconds}},
        "cluster": {"ps": 1, "workers": workers, "device": "cpu"}}


def last_line(command):
    """The last line that a program has printed, read as JSON."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          timeout=RUN_TIMEOUT_S)
    if done.returncode != 0:
        print("\n".join(done.stderr.splitlines()[-20:]), file=sys.stderr)
        sys.exit(SKIPPED if done.returncode == SKIPPED else 1)
    return json.loads(done.stdout.splitlines()[-1])


def measure(options, folder):
    """What each side has reached, by round: {name: [examples per second]}."""
    buckets = options.rows // WORDS
    clicks = os.path.join(folder, "clicks.tsv")
    write_clicks(clicks, options.examples, buckets)
    jobs = {}
    for workers in (1, 2):
        jobs[workers] = os.path.join(folder, f"job{workers}.json")
        with open(jobs[workers], "w", encoding="utf-8") as file:
            json.dump(job_of(clicks, buckets, workers, options), file)
    torch = [os.path.join(options.venv, "bin", "python"), os.path.join(HERE, "torch_dlrm.py"), jobs[1],
             "--threads", str(os.cpu_count()), "--seconds", str(options.seconds)]
    rates = {}
    for number in range(options.rounds):
        for workers, job in jobs.items():
            result = last_line([os.path.join(options.bin, "cadre"), "run", job, "-o", "json"])
            rate = result["examples"] / result["seconds"]
            rates.setdefault(f"cadre, workers {workers}", []).append(rate)
        for kind in ("dense", "sparse"):
            result = last_line([*torch, "--embeddings", kind])
            name = f"{result['version']}, {kind}"
            rates.setdefault(name, []).append(result["examples_per_s"])
        print(f"round {number + 1}: {({name: round(found[-1]) for name, found in rates.items()})}",
              file=sys.stderr)
    return rates


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="cadre-dlrm-") as folder:
        rates = measure(options, folder)
    print(f"{options.rows} rows of {UNITS} in {WORDS} tables, sgd, batch {options.batch}, "
          f"medians of {options.rounds} rounds in turn")
    one = rates["cadre, workers 1"]
    for name, found in rates.items():
        ratio = statistics.median(a / b for a, b in zip(one, found))
        print(f"  {name:28} {statistics.median(found):9.0f} examples/s   cadre with one worker / it {ratio:7.2f}")
    print(json.dumps({"schema": "cadre.dlrm_beside_torch/v1", "cpus": os.cpu_count(), "rows": options.rows,
                      "batch": options.batch, "rates": rates}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
