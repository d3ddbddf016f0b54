#!/usr/bin/env python3
"""tensorflow_side.py JOB.json [--seconds S] [--steps 1,20] [--noop] - trains the mlp of a job file of
Cadre by TensorFlow, under the strategy of tf.distribute that the file's `strategy.type` stands for.

The other tasks of the cluster are processes of this program, started and ended by it. One line of JSON
per measurement goes to stdout: calls, examples and CPU seconds of all its processes, after a warm-up. A
call is what TensorFlow calls a step: one run of a tf.function, which trains for each of --steps batches
of every replica; with ParameterServerStrategy it is one closure. Started by beside_tensorflow.py.
"""
import argparse
import ctypes
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time

WARM_CALLS, TRIAL_CALLS = 3, 10
PR_SET_PDEATHSIG = 1
KERAS = {"sgd": "SGD", "adam": "Adam"}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--steps", default="1,20", help="batches of one call, one measurement each")
    parser.add_argument("--noop", action="store_true", help="closures that do nothing, and no other")
    parser.add_argument("--task", help="what this process is in the cluster: TF_CONFIG's JSON")
    return parser.parse_args()


class Tasks:
    """This process and those that it has started."""

    def __init__(self, options):
        self.options = options
        self.processes = []

    def start(self, cluster, role, index):
        """Starts one task, which ends with this process at the latest."""
        task = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
        libc = ctypes.CDLL(None)
        command = [sys.executable, __file__, *sys.argv[1:], "--task", task]
        self.processes.append(subprocess.Popen(
            command, stdout=subprocess.DEVNULL,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)))

    def cpu_seconds(self):
        """The CPU time of all of them until now."""
        ticks = 0
        for pid in [os.getpid(), *(process.pid for process in self.processes)]:
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                words = stat.read().rsplit(")", 1)[1].split()
            ticks += int(words[11]) + int(words[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def free_addresses(counts):
    """A cluster of `counts` tasks per role, on ports of loopback that nobody has now."""
    sockets, cluster = [], {}
    for role, count in counts.items():
        cluster[role] = []
        for _ in range(count):
            sockets.append(socket.socket())
            sockets[-1].bind(("127.0.0.1", 0))
            cluster[role].append(f"127.0.0.1:{sockets[-1].getsockname()[1]}")
    for held in sockets:
        held.close()
    return cluster


def start_cluster(job, tasks):
    """Starts the other tasks of the job's strategy; what this process is in it, None for one alone."""
    workers = job["cluster"]["workers"]
    if job["strategy"]["type"] == "parameter_server":
        shards = job["cluster"]["ps"]
        cluster = free_addresses({"chief": 1, "worker": workers, "ps": shards})
        for role, count in (("worker", workers), ("ps", shards)):
            for index in range(count):
                tasks.start(cluster, role, index)
        return {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    if job["strategy"]["type"] == "multi_worker":
        cluster = free_addresses({"worker": workers})
        for index in range(1, workers):
            tasks.start(cluster, "worker", index)
        return {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    return None


def serve(tf, task):
    """Is a worker or ps of ParameterServerStrategy until it is killed."""
    server = tf.distribute.Server(tf.train.ClusterSpec(task["cluster"]), protocol="grpc",
                                  job_name=task["task"]["type"], task_index=task["task"]["index"])
    server.join()


def strategy_of(tf, job):
    """The strategy, and with ParameterServerStrategy its coordinator."""
    name = job["strategy"]["type"]
    if name == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy(), None
    if name == "mirrored":
        devices = [tf.config.LogicalDeviceConfiguration()] * job["cluster"]["workers"]
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
        return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(len(devices))]), None
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)


def rows_of(job):
    """The rows of `data.train`: x [rows, features], y [rows]."""
    import numpy
    data = job["data"]["train"]
    if data["format"] == "csv":
        with gzip.open(data["path"], "rt") as file:
            table = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
        return table[:, :-1] * numpy.float32(data["scale"]), table[:, -1].astype(numpy.int32)
    with open(data["labels_path"], "rb") as file:
        labels = numpy.frombuffer(file.read()[8:], numpy.uint8)
    with open(data["path"], "rb") as file:
        pixels = numpy.frombuffer(file.read()[16:], numpy.uint8).reshape(len(labels), -1)
    return pixels * numpy.float32(data["scale"]), labels.astype(numpy.int32)


class Training:
    """The job's model, data and step under a strategy."""

    def __init__(self, tf, job):
        self.tf, self.job = tf, job
        self.strategy, self.coordinator = strategy_of(tf, job)
        self.replicas = 1 if self.coordinator else self.strategy.num_replicas_in_sync
        self.rows = rows_of(job)
        with self.strategy.scope():
            hidden = [tf.keras.layers.Dense(units, "relu") for units in job["model"]["hidden"]]
            self.model = tf.keras.Sequential(
                [tf.keras.Input([self.rows[0].shape[1]]), *hidden, tf.keras.layers.Dense(10)])
            self.optimizer = getattr(tf.keras.optimizers, KERAS[job["optimizer"]["type"]])(
                job["optimizer"]["learning_rate"])
            self.optimizer.build(self.model.trainable_variables)
        self.batches = iter(self._distribute())

    def _dataset(self, _context=None):
        tf, rows = self.tf, self.rows
        dataset = tf.data.Dataset.from_tensor_slices(rows).shuffle(len(rows[0]), seed=1).repeat()
        return dataset.batch(self.job["training"]["batch_size"]).prefetch(tf.data.AUTOTUNE)

    def _distribute(self):
        distribute = self.strategy.distribute_datasets_from_function
        if not self.coordinator:
            return distribute(self._dataset)
        return self.coordinator.create_per_worker_dataset(lambda: distribute(self._dataset))

    def _replica_step(self, rows):
        """One batch of one replica; its part of the loss."""
        x, y = rows
        tf, variables = self.tf, self.model.trainable_variables
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.model(x, training=True))
            loss = tf.reduce_mean(losses) / self.replicas
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def call_of(self, steps):
        """A tf.function that trains for `steps` batches of every replica."""
        tf, strategy = self.tf, self.strategy

        def step(batches):
            losses = strategy.run(self._replica_step, (next(batches),))
            return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, None)

        @tf.function
        def call(batches):
            loss = step(batches)
            for _ in tf.range(steps - 1):
                loss = step(batches)
            return loss

        return call


class Calls:
    """Makes calls of one function and measures them."""

    def __init__(self, training, tasks, function, arguments_):
        self.training, self.tasks = training, tasks
        self.function, self.arguments = function, arguments_

    def _make(self, count):
        """Makes `count` calls and waits for their end; what the last one gave."""
        coordinator = self.training.coordinator
        last = None
        for _ in range(count):
            if coordinator:
                last = coordinator.schedule(self.function, args=self.arguments)
            else:
                last = self.function(*self.arguments)
        if coordinator:
            coordinator.join()
            last = last.fetch()
        return None if last is None else float(last)

    def _count_for(self, seconds):
        """How many calls take so long: the same number in each process of the cluster."""
        tf, strategy = self.training.tf, self.training.strategy
        begin = time.perf_counter()
        self._make(TRIAL_CALLS)
        count = max(TRIAL_CALLS, seconds * TRIAL_CALLS / (time.perf_counter() - begin))
        if self.training.coordinator or self.training.replicas == 1:
            return int(count)

        @tf.function
        def mean():
            counts = strategy.run(
                lambda: tf.distribute.get_replica_context().all_reduce("MEAN", tf.constant(count)))
            return strategy.reduce(tf.distribute.ReduceOp.MEAN, counts, None)

        return int(mean().numpy())

    def measure(self, seconds):
        first = self._make(WARM_CALLS)
        count = self._count_for(seconds)
        cpu, begin = self.tasks.cpu_seconds(), time.perf_counter()
        last = self._make(count)
        taken = time.perf_counter() - begin
        return {"calls": count, "seconds": taken, "cpu_seconds": self.tasks.cpu_seconds() - cpu,
                "first_loss": first, "last_loss": last}


def measure(options, training, tasks):
    """Prints one line for each measurement, each with the number of examples that it trained on."""
    tf = training.tf
    if options.noop:
        nothing = tf.function(lambda: None)
        found = Calls(training, tasks, nothing, ()).measure(options.seconds)
        print(json.dumps({"version": tf.__version__, "steps": 0, "examples": 0, **found}), flush=True)
        return
    for steps in map(int, options.steps.split(",")):
        calls = Calls(training, tasks, training.call_of(steps), (training.batches,))
        found = calls.measure(options.seconds)
        rows = steps * training.replicas * training.job["training"]["batch_size"]
        examples = found["calls"] * rows
        print(json.dumps({"version": tf.__version__, "steps": steps, "examples": examples, **found}),
              flush=True)


def main():
    options = arguments()
    with open(options.job, encoding="utf-8") as file:
        job = json.load(file)
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    tasks = Tasks(options)
    task = json.loads(options.task) if options.task else start_cluster(job, tasks)
    if task:
        os.environ["TF_CONFIG"] = json.dumps(task)
    import tensorflow as tf
    if options.task and job["strategy"]["type"] == "parameter_server":
        serve(tf, task)
    try:
        measure(options, Training(tf, job), tasks)
    finally:
        tasks.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
