"""The runs behind docs/strategies.md: for each figure its curves, for each curve the settings that it changes.

A setting is a path in a job file. What stands in BASE is said by no curve.
"""

BASE = {
    "optimizer": {"type": "sgd", "learning_rate": 0.1},
    "training": {"epochs": 20, "batch_size": 32, "evaluate_every": 1, "target_accuracy": 0},
    "cluster": {"ps": 1, "workers": 4, "slots": 4, "threads": 1, "device": "cpu"},
    "checkpoint": {"dir": "none"},
}

MNIST = {
    "data": {
        "train": {"format": "idx", "path": "${DATA}/mnist/t10k-images-idx3-ubyte.gz",
                  "labels_path": "${DATA}/mnist/t10k-labels-idx1-ubyte.gz", "scale": 1 / 255.0},
        "test": {"fraction": 0.2},
    },
    "model": {"type": "mlp", "hidden": [128]},
}

# figure: (title, {curve: settings})
FIGURES = {
    "asynchrony": ("Workers x slots, async, rate 0.1", {
        "1 x 1": {"cluster.workers": 1, "cluster.slots": 1},
        "2 x 1": {"cluster.workers": 2, "cluster.slots": 1},
        "4 x 1": {"cluster.workers": 4, "cluster.slots": 1},
        "4 x 4": {"cluster.workers": 4, "cluster.slots": 4},
    }),
    "asynchrony-high-rate": ("Workers x slots, async, rate 0.3", {
        "1 x 1": {"cluster.workers": 1, "cluster.slots": 1, "optimizer.learning_rate": 0.3},
        "2 x 1": {"cluster.workers": 2, "cluster.slots": 1, "optimizer.learning_rate": 0.3},
        "4 x 1": {"cluster.workers": 4, "cluster.slots": 1, "optimizer.learning_rate": 0.3},
        "4 x 4": {"cluster.workers": 4, "cluster.slots": 4, "optimizer.learning_rate": 0.3},
    }),
    "consistency": ("Consistency, 4 workers x 4 slots, rate 0.2", {
        "async": {"optimizer.learning_rate": 0.2},
        "bounded 16": {"optimizer.learning_rate": 0.2, "training.consistency": "bounded",
                       "training.staleness_bound": 16},
        "bounded 4": {"optimizer.learning_rate": 0.2, "training.consistency": "bounded",
                      "training.staleness_bound": 4},
        "bounded 0": {"optimizer.learning_rate": 0.2, "training.consistency": "bounded",
                      "training.staleness_bound": 0},
        "sync 1": {"optimizer.learning_rate": 0.2, "training.consistency": "sync",
                   "training.step_closures": 1},
        "sync 4": {"optimizer.learning_rate": 0.2, "training.consistency": "sync",
                   "training.step_closures": 4},
    }),
    "batch": ("Batch and rate, sync, 1 closure a step", {
        f"batch {batch}, rate {rate}": {
            "training.consistency": "sync", "training.batch_size": batch,
            "optimizer.learning_rate": rate}
        for batch, rate in ((32, 0.1), (128, 0.1), (128, 0.2), (128, 0.4))
    }),
    "local-steps": ("Local steps, sync, 4 closures a step", {
        f"{steps} steps": {
            "training.consistency": "sync", "training.step_closures": 4,
            "training.local_steps": steps}
        for steps in (1, 4, 16)
    }),
}

# comparison: {name: settings}, for seeds.py
COMPARISONS = {
    "delay-compensation": {
        f"rate {rate}, lambda {compensation}": {
            "optimizer.learning_rate": rate, "training.delay_compensation": compensation}
        for rate in (0.1, 0.15, 0.2) for compensation in (0, 0.5, 2, 8)
    },
}
