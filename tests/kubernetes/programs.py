"""programs.py - hands to Cadre what the manifests hand to it: the job, the settings, the flags."""
import base64
import json
import os
import subprocess

import lint

PROGRAMS = {"coordinator": "cadre", "ps": "cadre-ps", "worker": "cadre-worker"}


def content(found, kind, name):
    for item in found:
        if (item["kind"], item["metadata"]["name"]) == (kind, name):
            texts = item.get("data", {}) | item.get("stringData", {})
            return {key: value.encode() for key, value in texts.items()} | {
                key: base64.b64decode(value) for key, value in item.get("binaryData", {}).items()}
    return {}


def unpack(found, pods, root):
    """Lays out the ConfigMaps and Secrets that the pods mount as they would find them, below `root`."""
    places = {mount["name"]: mount["mountPath"]
              for container in pods.containers for mount in container.get("volumeMounts", [])}
    for volume in pods.spec.get("volumes", []):
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            source = volume.get(field)
            if not source or volume["name"] not in places:
                continue
            files = content(found, kind, source.get("name") or source.get("secretName"))
            items = source.get("items") or [{"key": key, "path": key} for key in files]
            for item in items:
                path = root + places[volume["name"]] + "/" + item["path"]
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(files.get(item["key"], b""))
                os.chmod(path, 0o600)


def environment(found, container):
    values = {}
    for source in container.get("envFrom", []):
        values |= {name: text.decode() for name, text in
                   content(found, "ConfigMap", source["configMapRef"]["name"]).items()}
    values |= {item["name"]: item["value"] for item in container.get("env", []) if "value" in item}
    return values


def tf_config(role, address):
    """What Kubeflow's operator tells a task, with addresses that this machine has."""
    hosts = {"chief": [f"{address}:2222"], "ps": [f"{address}:2223", f"{address}:2224"],
             "worker": [f"{address}:2225"]}
    task = {"type": "chief" if role == "coordinator" else role, "index": 0}
    return json.dumps({"cluster": hosts, "task": task, "environment": "cloud"})


def faults(found, place):
    """What the programs say against the pods of their role."""
    said = []
    everything = [pods for item in found for pods in lint.pods_of(item)]
    data = None  # where a worker sees its rows
    for number, pods in enumerate(everything):
        unpack(found, pods, f"{place}/{number}")
        if os.path.isdir(f"{place}/{number}/data"):
            data = f"{place}/{number}/data"
    unit = os.getpid()
    address = f"127.{70 + unit // 62500 % 50}.{unit // 250 % 250}.{unit % 250 + 1}"
    for number, pods in enumerate(everything):
        root = f"{place}/{number}"
        container = pods.spec["containers"][0]
        values = environment(found, container)
        known = values | {"POD_IP": address, "PS_INDEX": "1"}
        words = []
        for word in container.get("args", []):
            for name, value in known.items():
                word = word.replace(f"$({name})", value)
            words.append(word)
        words = [word.replace("=/data", f"={root}/data").replace("/etc/cadre", f"{root}/etc/cadre")
                 for word in words]
        role = pods.labels["app.kubernetes.io/component"]
        words = ["config", "check", words[1]] if role == "coordinator" else words + ["--check"]
        if pods.owner["kind"] == "TFJob":
            values["TF_CONFIG"] = tf_config(role, address)
        # What a check needs that only a cluster has.
        values |= {"CADRE_DEVICE": "cpu", "CADRE_DATA": data or "", "CADRE_HTTP": f"{address}:0",
                   "PATH": os.environ["PATH"]}
        if "CADRE_KEYS" in values:
            values["CADRE_KEYS"] = root + values["CADRE_KEYS"]
        program = os.path.join(os.environ["CADRE_BIN_DIR"], PROGRAMS[role])
        run = subprocess.run([program] + words, env=values, capture_output=True, text=True, timeout=60,
                             check=False)
        if run.returncode:
            said.append(f"{pods.name}: {' '.join(words)}: exit {run.returncode}: {run.stderr.strip()}")
    return said
