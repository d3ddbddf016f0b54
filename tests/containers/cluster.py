"""cluster.py - the pods of one job, and what the controllers of Kubernetes would do with them.

A container that died is started again in its pod, with the same address (the kubelet). A pod that is gone is
replaced by another one, with another address (StatefulSet, Deployment). A coordinator's pod is replaced, or
not, as the Job's podFailurePolicy says.

A Service with an address of its own is, in the place of a proxy, an address that the one pod behind it has; so
coordinators that follow each other have the same one. Names are in the pods' /etc/hosts.
"""
import ipaddress
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request

import objects as rendered
from engine import Failure
from kubelet import Template

WAIT_S = 120  # for anything: a busy machine fails no test


def wait(what, condition, seconds=WAIT_S):
    """The first true value of `condition`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise Failure(f"after {seconds} s still waiting for {what}")


def check_totals(result, epochs):
    """Every closure's update is on every shard exactly once."""
    per_epoch = 45  # 1438 rows in batches of 32
    counts = {result["closures"]["scheduled"], result["closures"]["finished"], epochs * per_epoch}
    counts |= {shard["applied"] for shard in result["updates"]}
    if len(counts) != 1:
        raise Failure(f"totals are not exact: {epochs * per_epoch} wanted: {json.dumps(result)}")
    if result["accuracy"] < 0.96:
        raise Failure(f"the accuracy is {result['accuracy']}")


class Pod:
    def __init__(self, role, name, address, index):
        self.role, self.name, self.address, self.index = role, name, address, index
        self.template, self.place = None, None


class Cluster:
    def __init__(self, engine, overlay):
        self.engine = engine
        self.objects = rendered.render(f"tests/containers/{overlay}")
        self.objects += rendered.keygen("cadre-keys")
        self.place = f"{engine.place}/{overlay}-{time.monotonic_ns()}"
        self.claims = {}
        self.addresses = ipaddress.ip_network(engine.open_network()).hosts()
        next(self.addresses)  # the gateway's
        self.pods = {}
        self.made = 0
        self.services = {}
        for item in self.objects:
            if item["kind"] == "PersistentVolumeClaim":
                self.claims[item["metadata"]["name"]] = self.claim(item["metadata"]["name"])
        self.templates = {role: Template(self.objects, role, self.claims)
                          for role in ("coordinator", "ps", "worker")}
        self.tfjob = next((item for item in self.objects if item["kind"] == "TFJob"), None)
        for hosts in self.tf_hosts().values() if self.tfjob else ():
            self.services |= {name: str(next(self.addresses)) for name in hosts}
        for template in self.templates.values():
            self.services |= {name: str(next(self.addresses)) for name in template.services()}
        self.versions = 1  # of the volumes in pods
        self.changes = {}  # of the environment of coordinators

    def claim(self, name):
        """A folder as a volume with fsGroup is: of root, writable for the group."""
        folder = f"{self.place}/claims/{name}"
        os.makedirs(folder)
        os.chown(folder, 0, 65532)
        os.chmod(folder, 0o2770)
        return folder

    def secret(self):
        return next(item for item in self.objects if item["kind"] == "Secret")

    def template_with(self, role, secret):
        """The template of a role with another Secret."""
        return Template([secret if item["kind"] == "Secret" else item for item in self.objects], role,
                        self.claims)

    def allowed(self):
        """The public keys, by the names of their files: change them, then update_pods."""
        return next(item for item in self.objects if item["metadata"]["name"] == "cadre-keys-allowed")["data"]

    # --- pods ---

    def update_pods(self):
        """Brings what has changed in ConfigMaps and Secrets to the pods that run."""
        self.versions += 1
        for pod in self.pods.values():
            pod.template.update(pod.place, self.versions)

    def start(self, role, index=0, template=None, changes=None):
        """A new pod, with an address of its own."""
        template = template or self.templates[role]
        self.made += 1
        pod = self.describe(role, index, template)
        changes = changes or (self.changes if role == "coordinator" else {})
        if self.tfjob:
            changes = changes | {"TF_CONFIG": self.tf_config(role, index)}
        pod.template, pod.place = template, f"{self.place}/{pod.name}-{self.made}"
        words = template.arguments(pod.name, pod.address, index, pod.place, changes)
        hosts = [f"--add-host={name}:{address}" for name, address in self.services.items()]
        # The same hardware address for the same address: nobody announces a change of it.
        number = "".join(f":{int(part):02x}" for part in pod.address.split("."))
        hosts += [f"--mac-address=02:ca{number}"]
        self.engine.call("run", "--detach", "--network", self.engine.network, *hosts, *words)
        self.pods[pod.name] = pod
        return pod

    def describe(self, role, index, template):
        """The name and address of the next pod: those of a Service where one leads to it alone."""
        name = f"cadre-{role}-{index}" if role == "ps" else f"cadre-{role}-{self.made}"
        service = template.services()
        if self.tfjob:
            name = self.tf_name(role, index)
            service = [f"{name}.cadre.svc"]
        return Pod(role, name, self.services[service[0]] if service else str(next(self.addresses)), index)

    # --- Kubeflow's operator ---

    def tf_name(self, role, index):
        kind = "chief" if role == "coordinator" else role
        return f"{self.tfjob['metadata']['name']}-{kind}-{index}"

    def tf_hosts(self):
        """The names of the Services that it makes, by type."""
        hosts = {}
        for role, kind in (("coordinator", "Chief"), ("ps", "PS"), ("worker", "Worker")):
            count = self.tfjob["spec"]["tfReplicaSpecs"][kind]["replicas"]
            hosts[kind.lower()] = [f"{self.tf_name(role, index)}.cadre.svc" for index in range(count)]
        return hosts

    def tf_config(self, role, index):
        cluster = {kind: [f"{host}:2222" for host in hosts] for kind, hosts in self.tf_hosts().items()}
        task = {"type": "chief" if role == "coordinator" else role, "index": index}
        return json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})

    def start_all(self):
        self.start_tasks()
        return self.start("coordinator")

    def start_tasks(self):
        """All ps and workers."""
        for role in ("ps", "worker"):
            spec = self.templates[role].owner["spec"]
            count = len(self.tf_hosts()[role]) if self.tfjob else spec["replicas"]
            for index in range(count):
                self.start(role, index)

    def of(self, role):
        return [pod for pod in self.pods.values() if pod.role == role]

    def state(self, pod):
        """Whether it runs, and its exit code."""
        state = json.loads(self.engine.call("inspect", pod.name))[0]["State"]
        return state["Running"], state["ExitCode"]

    def log(self, pod):
        return self.engine.call("logs", pod.name, check=False)[1]

    def remove(self, pod):
        """Removes a pod that has ended, and keeps its log."""
        with open(f"{self.place}/{pod.name}-{self.made}.log", "w", encoding="utf-8") as file:
            file.write(self.log(pod))
        self.engine.call("rm", "--force", "--time", "0", pod.name)
        del self.pods[pod.name]

    def kill(self, pod):
        self.engine.call("kill", "--signal", "KILL", pod.name)
        wait(f"the end of {pod.name}", lambda: not self.state(pod)[0])

    def restart(self, pod):
        """The container again, in the same pod."""
        self.engine.call("start", pod.name)

    def preempt(self, pod):
        """SIGTERM, and SIGKILL after the grace period; its exit code and how long it took."""
        began = time.monotonic()
        self.engine.call("stop", pod.name, timeout=WAIT_S)
        took = time.monotonic() - began
        running, code = self.state(pod)
        if running or took > self.templates[pod.role].grace:
            raise Failure(f"{pod.name} did not end within its grace period ({took:.0f} s)")
        return code, took

    # --- the Job ---

    def job_verdict(self, code):
        """What the Job does after a coordinator that ended with `code`: Complete, Ignore, Count or FailJob."""
        if code == 0:
            return "Complete"
        rules = self.templates["coordinator"].owner["spec"]["podFailurePolicy"]["rules"]
        for rule in rules:
            if code in rule.get("onExitCodes", {}).get("values", []):
                return rule["action"]
        return "Count"

    def replace_coordinator(self, verdicts):
        """The pod that the Job starts after the one that has ended."""
        pod = self.of("coordinator")[0]
        code = self.state(pod)[1]
        if self.job_verdict(code) not in verdicts:
            raise Failure(f"the coordinator ended with {code}, for which the Job does "
                          f"{self.job_verdict(code)}: {self.log(pod)[-1500:]}")
        self.remove(pod)
        return self.start("coordinator")

    # --- what is to be seen ---

    def probe(self, pod, name):
        """The answer to one of the probes of a pod, as its template asks: a status, 0 for none."""
        container = self.templates[pod.role].container
        get = container[name]["httpGet"]
        port = next(item["containerPort"] for item in container["ports"] if item["name"] == get["port"])
        return self.get(pod, port, get["path"])[0]

    def get(self, pod, port, path):
        try:
            with urllib.request.urlopen(f"http://{pod.address}:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def wait_probe(self, pod, name, status=200):
        wait(f"{name} of {pod.name} to be {status}", lambda: self.probe(pod, name) == status)

    def progress(self):
        """The newest line of progress of the coordinator: epoch, workers."""
        pod = self.of("coordinator")[0]
        text = self.log(pod)
        running, code = self.state(pod)
        if not running:
            raise Failure(f"the coordinator ended with {code}: {text[-3000:]}")
        return self.epoch_said(text)

    def epoch_said(self, text):
        lines = re.findall(r"^epoch=(\d+)/\d+ .*workers=(\d+)/", text, re.MULTILINE)
        return tuple(map(int, lines[-1])) if lines else (0, 0)

    def said(self, pods, words):
        """The first line with all these words in the logs of those pods."""
        for pod in pods:
            for line in self.log(pod).splitlines():
                if all(word in line for word in words):
                    return line
        return None

    def wait_said(self, who, *words):
        """Waits for such a line of a pod, or of any of a role."""
        name = who if isinstance(who, str) else who.name
        return wait(f"{name} to say {' '.join(words)}",
                    lambda: self.said(self.of(who) if isinstance(who, str) else [who], words))

    def wait_training(self, epochs=20, workers=None):
        """Trains on for so many epochs, and until so many workers take part."""
        first = wait("the first epoch", lambda: self.progress()[0])

        def goes_on():
            epoch, count = self.progress()
            return epoch >= first + epochs and (workers is None or count == workers)
        wait(f"{epochs} more epochs" + (f" by {workers} workers" if workers else ""), goes_on)
        return self.progress()[0]

    def finish(self):
        """Preempts the coordinator and has its successor train a little on, to an end; its result."""
        pod = self.of("coordinator")[0]
        code, _ = self.preempt(pod)
        epoch = self.epoch_said(self.log(pod))[0]
        if code != 143:
            raise Failure(f"the coordinator ended with {code}, not 143: {self.log(pod)[-1500:]}")
        epochs = epoch + 100
        self.changes = {"CADRE_EPOCHS": str(epochs)}
        pod = self.replace_coordinator(["Ignore"])
        wait("the end of the job", lambda: not self.state(pod)[0])
        result = self.result(pod)
        if "resumed from" not in self.log(pod):
            raise Failure(f"the coordinator did not resume: {self.log(pod)[-3000:]}")
        check_totals(result, epochs)
        return result

    def result(self, pod):
        """What a coordinator that has ended well printed."""
        code, text = self.state(pod)[1], self.log(pod)
        if code:
            raise Failure(f"the coordinator ended with {code}: {text[-3000:]}")
        return json.loads(next(line for line in text.splitlines() if line.startswith('{"schema"')))

    # --- the end ---

    def dump(self):
        for pod in self.pods.values():
            running, code = self.state(pod)
            print(f"--- {pod.name} {pod.address} " + ("runs" if running else f"exit {code}"))
            lines = [line[:300] for line in self.log(pod).splitlines()
                     if not line.startswith("epoch=") and "snapshot_written" not in line]
            print("\n".join(lines[-25:]))

    def keep_logs(self, folder):
        for pod in self.pods.values():
            with open(f"{folder}/{pod.name}.log", "w", encoding="utf-8") as file:
                file.write(self.log(pod))
        subprocess.run(f"cp {self.place}/*.log {folder}/", shell=True, check=False,
                       capture_output=True)

    def close(self):
        self.engine.remove_containers()
