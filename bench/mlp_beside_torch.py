#!/usr/bin/env python3
"""mlp_beside_torch.py CADRE-BENCH [--threads N] [--rounds N] [--python PROGRAM] - the section mlp of
cadre-bench and torch_mlp.py in turn, and the median of each with their ratio.

PROGRAM is a Python that has PyTorch (default: this one). Exit code 77 when it has none.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    return parser.parse_args()


def figure(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    if done.returncode != 0:
        sys.exit(done.returncode)
    report = json.loads(done.stdout)
    return report["version"], report["figures"][0]


def main():
    options = arguments()
    threads = ["--threads", str(options.threads)]
    torch_mlp = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_mlp.py")
    ours, theirs, shares = [], [], []
    for _ in range(options.rounds):
        version, found = figure([options.python, torch_mlp, *threads])
        theirs.append(found["value"])
        _, found = figure([options.bench, "--only", "mlp", "-o", "json", *threads])
        ours.append(found["value"])
        shares.append(found["ratio"])
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"threads {options.threads}, examples/s, medians of {options.rounds} rounds in turn")
    print(f"  cadre          {statistics.median(ours):10.0f}")
    print(f"  {version:14} {statistics.median(theirs):10.0f}")
    print(f"  cadre / torch  {statistics.median(ratios):10.3f}   "
          f"(rounds: {', '.join(f'{ratio:.3f}' for ratio in ratios)})")
    print(f"  cadre / its OpenBLAS calls alone {statistics.median(shares):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
