"""engine.py - podman and buildah with a storage, a configuration and networks of their own.

Nothing of the machine's own containers is seen or changed. The storage keeps the base and the newest images
between runs, the rest is removed by close().
"""
import collections
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

import documents

ROLES = ("coordinator", "ps", "worker")
VERSION = "0.2.0"  # as the manifests name the images

CONFIGURATION = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
[network]
network_backend = "netavark"
network_config_dir = "{place}/networks"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
tmp_dir = "{place}/libpod"
"""


class Failure(Exception):
    """What a test, or what it stands on, has found wrong."""


class Engine:
    def __init__(self):
        kept = os.environ.get("CADRE_CONTAINERS_DIR", "build/containers")
        os.makedirs(kept, exist_ok=True)
        self.kept = os.path.realpath(kept)
        self.lock = open(f"{self.kept}/lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another run uses {self.kept}") from None
        # What podman knows of containers, none of which outlives a run; it names folders of that run.
        shutil.rmtree(f"{self.kept}/storage/libpod", ignore_errors=True)
        self.place = tempfile.mkdtemp(prefix="cadre-containers-", dir="/var/tmp")
        self.network = f"cadre-{os.getpid()}"
        self.environment = os.environ | {
            "CONTAINERS_CONF": f"{self.place}/containers.conf", "TMPDIR": self.place,
            "BUILDAH_ISOLATION": "chroot", "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        with open(f"{self.place}/containers.conf", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(place=self.place))
        self.storage = ["--root", f"{self.kept}/storage", "--runroot", f"{self.place}/run"]

    def call(self, *words, timeout=120, check=True, binary="podman"):
        """The output of one command."""
        run = subprocess.run([binary] + self.storage + list(words), env=self.environment, text=True,
                             capture_output=True, timeout=timeout, check=False)
        if check and run.returncode:
            raise Failure(f"{binary} {' '.join(words)}: exit {run.returncode}: {run.stderr[-2000:]}")
        return run.stdout.strip() if check else (run.returncode, run.stdout + run.stderr)

    def run(self, *words, check=True, variables=None, timeout=300):
        """The output of another command."""
        run = subprocess.run(list(words), env=self.environment | (variables or {}), text=True,
                             capture_output=True, timeout=timeout, check=False)
        if check and run.returncode:
            raise Failure(f"{' '.join(words)}: exit {run.returncode}: {run.stderr[-2000:]}")
        return run.stdout

    def run_cadre(self, *words):
        return self.run(os.path.join(os.environ["CADRE_BIN_DIR"], "cadre"), *words)

    def follow(self, words, variables, began):
        """Runs a command that builds, and prints the steps that it names, with the seconds since `began`."""
        step = re.compile(r"^(base: |(\[\d+/\d+\] )?STEP |Successfully tagged )")
        last = collections.deque(maxlen=40)
        with subprocess.Popen(words, env=self.environment | variables, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as run:
            deadline = threading.Timer(2400, run.kill)
            deadline.start()
            for line in run.stdout:
                last.append(line)
                if step.match(line):
                    print(f"{time.monotonic() - began:6.0f} s  {line.rstrip()[:120]}", flush=True)
            deadline.cancel()
        if run.returncode:
            raise Failure(f"{' '.join(words)}: exit {run.returncode}: {''.join(last)}")

    # --- images ---

    def wrapper(self, *names):
        """A PATH on which these programs use our storage."""
        folder = f"{self.place}/bin"
        os.makedirs(folder, exist_ok=True)
        for name in names:
            path = f"{folder}/{name}"
            real = shutil.which(name, path=self.environment["PATH"])
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {real} {' '.join(self.storage)} \"$@\"\n")
            os.chmod(path, 0o755)
        return f"{folder}:{self.environment['PATH']}"

    def build(self):
        """Builds the images as docs/kubernetes.md says, and prints each step as it begins."""
        began = time.monotonic()
        variables = {"PATH": self.wrapper("podman", "buildah")}
        for block in documents.blocks("docs/kubernetes.md", "images"):
            self.follow(["bash", "-euc", block], variables, began)
        base = self.run("deploy/containers/base", variables=variables).strip()
        for name in self.call("images", "--format", "{{.Repository}}:{{.Tag}}", "--filter",
                              "reference=localhost/cadre-base").split():
            if name != base:  # of other packages than now
                self.call("rmi", "--force", name, check=False)
        return time.monotonic() - began

    def image(self, role):
        return json.loads(self.call("image", "inspect", f"cadre-{role}:{VERSION}"))[0]

    # --- networks ---

    def open_network(self):
        self.call("network", "create", "--disable-dns", self.network)
        return json.loads(self.call("network", "inspect", self.network))[0]["subnets"][0]["subnet"]

    # --- the end ---

    def remove_containers(self):
        self.call("rm", "--force", "--time", "0", "--all", check=False)
        self.call("network", "rm", "--force", self.network, check=False)

    def close(self):
        self.remove_containers()
        self.call("image", "prune", "--force", timeout=600, check=False)
        subprocess.run(["umount", f"{self.kept}/storage/overlay"], check=False, capture_output=True)
        shutil.rmtree(self.place, ignore_errors=True)
