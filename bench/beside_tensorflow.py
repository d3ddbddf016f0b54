#!/usr/bin/env python3
"""beside_tensorflow.py --venv DIR [OPTION...] - strategies of tf.distribute and those of Cadre on the same
model, data, optimizer, batch and number of workers, in turn on this machine.

    python3 -m venv /tmp/tensorflow
    /tmp/tensorflow/bin/pip install tensorflow-cpu
    bench/beside_tensorflow.py --venv /tmp/tensorflow

Each round trains by TensorFlow (tensorflow_side.py, with processes of its own) and then by `cadre run`, from
one job file. Rates are those of steady training; the CPU time is that of all processes, for Cadre with
their start, which TensorFlow is not charged with. A closure of Cadre trains on one batch. A call of
TensorFlow trains with parameter_server on one batch, else on one of each worker; with 20 steps a call on 20
times as many, each step of which reads and updates the variables, as each closure of Cadre does. Other
work on the machine spoils rates; ratios suffer less, those of CPU time the least.

Each round ends with the ceiling: the model trained by as many plain loops at once as there are workers, which
exchange nothing (`cadre-bench --only loops`). No way to train reaches more on that machine, so that loops / TF
is the largest ratio that Cadre can have there.

stdout gets a table and, as its last line, one JSON object. Exit status: 0 when all was measured (a ratio
below the wanted one is marked, no failure), 1 when a run failed, 2 for wrong usage, 77 where DIR has no
TensorFlow.
"""
import argparse
import json
import math
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
SKIPPED = 77
RUN_TIMEOUT_S = 300
ROUNDS_MAX, SECONDS_MAX = 99, 60
STEPS = (1, 20)  # of a call of TensorFlow
STRATEGIES = ("parameter_server", "multi_worker", "mirrored")
PROGRAMS = ("cadre", "cadre-bench", "cadre-ps", "cadre-worker")
ROWS, SIDE = 10000, 28  # of the made-up images
WANTED = {"noop": 10, "digits": 10, "wide": 3}  # compute dominates in `wide` alone
LOOPS = {"digits": "digits, 64-128-10, adam", "wide": "784-512-512-10, sgd"}  # the networks' names in cadre-bench
MODELS = {
    "noop": "closures that do nothing; parameter_server only",
    "digits": "64-128-10, adam, batch 32, the shipped digits",
    "wide": "784-512-512-10, sgd, batch 128, made-up images",
}


class Failure(Exception):
    """A run that went wrong, in words."""


def words_of(known):
    """A parser of comma-separated lists of `known` words."""
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f'"{word}" is none of {",".join(known)}')
        if len(set(words)) < len(words):
            raise argparse.ArgumentTypeError(f'"{text}" names one twice')
        return words
    return parse


def count_to(most):
    """A parser of whole numbers from 1 on."""
    def parse(text):
        if not text.isdecimal() or not 1 <= int(text[:20]) <= most:
            raise argparse.ArgumentTypeError(f'"{text}" is no whole number in 1 to {most}')
        return int(text)
    return parse


def folder_with(programs):
    """A parser of folders that hold each of `programs`."""
    def parse(text):
        for program in programs:
            path = os.path.join(text, program)
            if not os.access(path, os.X_OK):
                raise argparse.ArgumentTypeError(f"{path} is no program: name another folder, or make it")
        return os.path.abspath(text)
    return parse


def arguments():
    texts = "; ".join(f"{name}: {text}" for name, text in MODELS.items())
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", metavar="DIR", type=folder_with(["bin/python"]),
                        help="virtual environment with tensorflow-cpu; required but with --check")
    parser.add_argument("--bin", metavar="DIR", type=folder_with(PROGRAMS), help="programs of Cadre",
                        default=os.path.join(SOURCE, "build", "release", "bin"))
    parser.add_argument("--models", type=words_of(MODELS), default=list(MODELS), help=texts)
    parser.add_argument("--strategies", type=words_of(STRATEGIES), default=list(STRATEGIES),
                        help="of " + ",".join(STRATEGIES))
    parser.add_argument("--workers", type=int, choices=(1, 2, 4), default=2)
    parser.add_argument("--rounds", type=count_to(ROUNDS_MAX), default=3)
    parser.add_argument("--seconds", type=count_to(SECONDS_MAX), default=4, help="of each measurement")
    parser.add_argument("--check", action="store_true",
                        help="check the arguments, print what would be run, and end")
    options = parser.parse_args()
    if not options.venv and not options.check:
        parser.error("--venv DIR is missing: python3 -m venv DIR && DIR/bin/pip install tensorflow-cpu")
    return options


# --- one job for both ---

def write_images(folder):
    """Writes made-up images and labels in the format of MNIST, the same ones each time."""
    numbers, size = random.Random(1), SIDE * SIDE
    pixels = numbers.randbytes(ROWS * size)
    labels = bytearray()
    for begin in range(0, len(pixels), size):
        labels.append(max(range(10), key=lambda k: pixels[begin + k]))
    with open(os.path.join(folder, "images"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, ROWS, SIDE, SIDE) + pixels)
    with open(os.path.join(folder, "labels"), "wb") as file:
        file.write(struct.pack(">II", 0x801, ROWS) + labels)


def job_of(model, strategy, options, folder):
    """The job file: tensorflow_side.py reads the same one."""
    cluster = {"workers": options.workers, "device": "cpu"}
    if strategy == "parameter_server":
        cluster["ps"] = 1
    job = {"seed": 1, "checkpoint": {"dir": "none"}, "strategy": {"type": strategy}, "cluster": cluster}
    stop = {"seconds": options.seconds}
    if model == "wide":
        images, labels = (os.path.join(folder, name) for name in ("images", "labels"))
        return job | {
            "data": {"train": {"format": "idx", "path": images, "labels_path": labels, "scale": 1 / 255}},
            "model": {"type": "mlp", "hidden": [512, 512]},
            "optimizer": {"type": "sgd", "learning_rate": 0.05},
            "training": {"epochs": 100000, "batch_size": 128, "stop": stop}}
    digits = os.path.join(SOURCE, "examples", "data", "digits.csv.gz")
    return job | {
        "data": {"train": {"format": "csv", "path": digits, "scale": 0.0625}},
        "model": {"type": "mlp", "hidden": [128]},
        "optimizer": {"type": "adam", "learning_rate": 0.003},
        "training": {"epochs": 100000, "batch_size": 32, "stop": stop}}


# --- runs ---

def run(command):
    """The lines that a program has printed, and the CPU seconds of all that it was."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(command)}: not ended after {RUN_TIMEOUT_S} s") from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.splitlines()[-20:])
        raise Failure(f"{' '.join(command)}: exit status {done.returncode}\n{last}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout.splitlines(), cpu


def figures(examples, closures, seconds, cpu):
    """Rates, and the CPU time of one example, or of one closure that has none."""
    return {"examples_per_s": examples / seconds, "closures_per_s": closures / seconds,
            "cpu_us": 1e6 * cpu / (examples or closures)}


def expect_learned(who, loss, first=0, classes=10):
    """Refuses a figure of a program that does not train: its last loss is no less than its first and than
    that of guessing. A network of few steps may still lose more than who guesses."""
    if not loss < max(first, math.log(classes)):
        raise Failure(f"{who} is wrong: its last loss is {loss}, the first {first or 'not known'}, that of "
                      f"guessing {math.log(classes):.2f}")


def run_tensorflow(job_path, options, noop):
    """Version, and figures for each number of steps a call."""
    command = [os.path.join(options.venv, "bin/python"), os.path.join(HERE, "tensorflow_side.py"), job_path,
               "--seconds", str(options.seconds), "--steps", ",".join(map(str, STEPS))]
    lines, _ = run([*command, "--noop"] if noop else command)
    found = {}
    for line in map(json.loads, lines):
        if not noop:
            expect_learned("TensorFlow", line["last_loss"], line["first_loss"])
        found[line["steps"]] = figures(line["examples"], line["calls"], line["seconds"],
                                       line["cpu_seconds"])
        version = line["version"]
    return version, found


def run_cadre(job_path, options):
    command = [os.path.join(options.bin, "cadre"), "run", job_path, "-o", "json"]
    lines, cpu = run(command)
    result = json.loads(lines[-1])
    expect_learned("Cadre", result["loss"])
    return figures(result["examples"], result["closures"]["finished"], result["seconds"], cpu)


def run_cadre_noop(options):
    lines, _ = run([os.path.join(options.bin, "cadre-bench"), "--only", "closures", "-o", "json"])
    report = json.loads(lines[-1])
    values = {figure["name"]: figure["value"] for figure in report["figures"]}
    rate = values[f"no-op closures, workers {options.workers}"]
    cpu_us = values[f"CPU of all tasks per closure, workers {options.workers}"]
    return {"examples_per_s": 0, "closures_per_s": rate, "cpu_us": cpu_us}


def run_loops(options):
    """The rates of as many plain loops at once as there are workers, by model: what Cadre's device can do."""
    command = [os.path.join(options.bin, "cadre-bench"), "--only", "loops", "--threads", str(options.workers),
               "--quick", "-o", "json"]
    report = json.loads(run(command)[0][-1])
    values = {figure["name"]: figure["value"] for figure in report["figures"]}
    return {model: {"examples_per_s": values[f"{name}, loops {options.workers}"],
                    "cpu_us": values[f"CPU per example, {name}"]}
            for model, name in LOOPS.items()}


# --- what is found ---

def plan(options):
    """Pairs of a model and a strategy, in the order of the table."""
    return [(model, strategy) for model in options.models for strategy in options.strategies
            if model != "noop" or strategy == "parameter_server"]


def medians(rounds):
    return {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}


def row_of(model, strategy, steps, theirs, ours, loops):
    """One row of the table: medians of the rounds, and of the ratios of each round; `loops` is empty for closures
    that do nothing."""
    rate = "closures_per_s" if model == "noop" else "examples_per_s"
    ratios = [b[rate] / a[rate] for a, b in zip(theirs, ours)]
    cpu_ratios = [a["cpu_us"] / b["cpu_us"] for a, b in zip(theirs, ours)]
    most = [loop[rate] / a[rate] for a, loop in zip(theirs, loops)]
    return {"model": model, "strategy": strategy, "steps_per_call": steps, "tensorflow": medians(theirs),
            "cadre": medians(ours), "ratio": statistics.median(ratios), "ratios": ratios,
            "loops": medians(loops) if loops else None, "ratio_maxima": most,
            "ratio_max": statistics.median(most) if loops else None,
            "cpu_ratio": statistics.median(cpu_ratios), "cpu_ratios": cpu_ratios, "wanted": WANTED[model]}


def measure(model, strategy, options, folder):
    """The rows of one model under one strategy, and TensorFlow's version."""
    path = os.path.join(folder, f"{model}-{strategy}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(job_of(model, strategy, options, folder), file)
    theirs, ours, loops, version = [], [], [], None
    for number in range(options.rounds):
        print(f"{model}, {strategy}: round {number + 1} of {options.rounds}", file=sys.stderr)
        version, found = run_tensorflow(path, options, model == "noop")
        theirs.append(found)
        ours.append(run_cadre_noop(options) if model == "noop" else run_cadre(path, options))
        if model in LOOPS:
            loops.append(run_loops(options)[model])
    rows = [row_of(model, strategy, steps, [found[steps] for found in theirs], ours, loops)
            for steps in theirs[0]]
    return rows, version


def print_table(rows):
    print("                                    examples/s                      closures/s            CPU us"
          "                rate  CPU    loops")
    print("model   strategy          steps    TF      Cadre     loops         TF      Cadre       TF     Cadre"
          "     ratio  ratio  / TF   wanted")
    for row in rows:
        theirs, ours = row["tensorflow"], row["cadre"]
        met = "met" if row["ratio"] >= row["wanted"] else "missed"
        loops = f"{row['loops']['examples_per_s']:9.0f}" if row["loops"] else f"{'-':>9}"
        most = f"{row['ratio_max']:6.1f}" if row["loops"] else f"{'-':>6}"
        print(f"{row['model']:7} {row['strategy']:17} {row['steps_per_call'] or '-':>4}"
              f" {theirs['examples_per_s']:9.0f} {ours['examples_per_s']:9.0f} {loops}"
              f" {theirs['closures_per_s']:9.0f} {ours['closures_per_s']:9.0f}"
              f" {theirs['cpu_us']:9.1f} {ours['cpu_us']:9.1f}"
              f" {row['ratio']:8.1f} {row['cpu_ratio']:6.1f} {most}  {row['wanted']:3}: {met}")


def main():
    options = arguments()
    if options.check:
        for model, strategy in plan(options):
            print(f"{model}, {strategy}: {options.rounds} rounds of {options.seconds} s, {options.workers} workers")
        return 0
    python = os.path.join(options.venv, "bin/python")
    found = subprocess.run([python, "-c", "import importlib.util, sys; "
                            "sys.exit(importlib.util.find_spec('tensorflow') is None)"], check=False)
    if found.returncode != 0:
        print(f"skipped: {options.venv} has no TensorFlow: {options.venv}/bin/pip install tensorflow-cpu",
              file=sys.stderr)
        return SKIPPED
    rows, failures, version = [], [], None
    with tempfile.TemporaryDirectory(prefix="cadre-beside-") as folder:
        write_images(folder)
        for model, strategy in plan(options):
            try:
                more, version = measure(model, strategy, options, folder)
                rows += more
            except Failure as failure:
                print(f"{model}, {strategy}: {failure}", file=sys.stderr)
                failures.append(f"{model}, {strategy}")
    print_table(rows)
    print(json.dumps({"schema": "cadre.beside_tensorflow/v1", "tensorflow": version, "cpus": os.cpu_count(),
                      "workers": options.workers, "rounds": options.rounds, "rows": rows,
                      "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
