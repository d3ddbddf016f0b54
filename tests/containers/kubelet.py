"""kubelet.py - makes `podman run` arguments of a pod template, as a kubelet would run it.

Every field of the template is used, or is known to mean nothing on one machine, or is refused: what is tested is
what the manifests say.
"""
import base64
import os
import re

from engine import Failure

POD_FIELDS = {"restartPolicy", "terminationGracePeriodSeconds", "automountServiceAccountToken",
              "enableServiceLinks", "securityContext", "topologySpreadConstraints", "containers", "volumes"}
POD_SECURITY = {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy",
                "seccompProfile"}
CONTAINER_FIELDS = {"name", "image", "args", "env", "envFrom", "ports", "startupProbe", "livenessProbe",
                    "readinessProbe", "resources", "securityContext", "volumeMounts"}
CONTAINER_SECURITY = {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def only(where, item, known):
    if set(item) - known:
        raise Failure(f"{where} has fields that this test would leave out: {sorted(set(item) - known)}")
    return item


def bytes_of(text):
    return int(text[:-2]) * UNITS[text[-2:]]


def content(objects, kind, name):
    for item in objects:
        if (item["kind"], item["metadata"]["name"]) == (kind, name):
            files = {key: value.encode() for key, value in item.get("stringData", {}).items()}
            if kind == "ConfigMap":
                files |= {key: value.encode() for key, value in item.get("data", {}).items()}
                packed = item.get("binaryData", {})
            else:
                packed = item.get("data", {})
            return files | {key: base64.b64decode(value) for key, value in packed.items()}
    raise Failure(f"there is no {kind} {name}")


def lay_out(files, items, folder, mode, group, version):
    """A volume as the kubelet writes it: files in a folder of their own, and links to them; or its next version."""
    items = items or [{"key": key, "path": key} for key in files]
    for item in items:
        path = f"{folder}/..{version}/{item['path']}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(files[item["key"]])
        os.chown(path, 0, group)
        os.chmod(path, mode)
    os.symlink(f"..{version}", f"{folder}/..data_tmp")
    os.rename(f"{folder}/..data_tmp", f"{folder}/..data")
    names = {item["path"].split("/")[0] for item in items}
    links = {name for name in os.listdir(folder)
             if os.path.islink(f"{folder}/{name}") and not name.startswith("..")}
    for name in names - links:
        os.symlink(f"..data/{name}", f"{folder}/{name}")
    for name in links - names:
        os.unlink(f"{folder}/{name}")


class Template:
    """The template of one role's pods, and the objects it names."""

    def __init__(self, objects, role, claims):
        self.objects, self.role, self.claims = objects, role, claims
        self.owner, template = self.find()
        self.labels = template["metadata"]["labels"]
        self.spec = only(role, template["spec"], POD_FIELDS)
        self.security = only(role, self.spec["securityContext"], POD_SECURITY)
        if len(self.spec["containers"]) != 1:
            raise Failure(f"{role}: this test is for pods with one container")
        self.container = only(role, self.spec["containers"][0], CONTAINER_FIELDS)
        self.grace = self.spec["terminationGracePeriodSeconds"]

    def find(self):
        """The object that makes these pods, and their template."""
        for item in self.objects:
            if item["kind"] == "TFJob":
                replicas = {"coordinator": "Chief", "ps": "PS", "worker": "Worker"}[self.role]
                return item, item["spec"]["tfReplicaSpecs"][replicas]["template"]
            kind = {"coordinator": "Job", "ps": "StatefulSet", "worker": "Deployment"}[self.role]
            if (item["kind"], item["metadata"]["name"]) == (kind, f"cadre-{self.role}"):
                return item, item["spec"]["template"]
        raise Failure(f"nothing makes pods of a {self.role}")

    def services(self):
        """Services with an address that lead to these pods."""
        return [item["metadata"]["name"] for item in self.objects if item["kind"] == "Service" and
                item["spec"]["selector"].items() <= self.labels.items() and
                item["spec"].get("clusterIP") != "None"]

    def environment(self, fields):
        values = {}
        for source in self.container.get("envFrom", []):
            settings = content(self.objects, "ConfigMap", source["configMapRef"]["name"])
            values |= {name: text.decode() for name, text in settings.items()}
        for item in self.container.get("env", []):
            values[item["name"]] = item["value"] if "value" in item else \
                fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
        return values

    def volume(self, volume, place):
        """How podman is told of a volume: its kind, and a source."""
        name = volume["name"]
        if "emptyDir" in volume:
            size = bytes_of(volume["emptyDir"]["sizeLimit"])
            return lambda path, mode: ["--tmpfs", f"{path}:rw,mode=1777,size={size}"]
        if "persistentVolumeClaim" in volume:
            folder = self.claims[volume["persistentVolumeClaim"]["claimName"]]
        else:
            folder = f"{place}/{name}"
            os.makedirs(folder)
            os.chmod(folder, 0o1777 if "configMap" in volume else 0o3777)  # as the kubelet's tmpfs
            self.write(volume, folder, 1)
            for path in self.nested(name):
                os.makedirs(f"{folder}/{path}")
        return lambda path, mode: ["--volume", f"{folder}:{path}:{mode}"]

    def write(self, volume, folder, version):
        kind, field = ("ConfigMap", "configMap") if "configMap" in volume else ("Secret", "secret")
        source = volume[field]
        lay_out(content(self.objects, kind, source.get("name") or source["secretName"]), source.get("items"),
                folder, source.get("defaultMode", 0o644), self.security["fsGroup"], version)

    def nested(self, name):
        """Where other volumes are mounted inside this one: the kubelet makes those folders."""
        mounts = self.container["volumeMounts"]
        outer = [mount["mountPath"] + "/" for mount in mounts if mount["name"] == name]
        return [mount["mountPath"].removeprefix(path) for path in outer for mount in mounts
                if mount["mountPath"].startswith(path)]

    def update(self, place, version):
        """What the kubelet does in a pod that runs, once an object has changed."""
        for volume in self.spec["volumes"]:
            if "configMap" in volume or "secret" in volume:
                self.write(volume, f"{place}/{volume['name']}", version)

    def volumes(self, place):
        sources = {volume["name"]: self.volume(volume, place) for volume in self.spec["volumes"]}
        words = []
        for mount in self.container["volumeMounts"]:
            words += sources[mount["name"]](mount["mountPath"], "ro" if mount.get("readOnly") else "rw")
        return words

    def confinement(self):
        own = only(self.role, self.container["securityContext"], CONTAINER_SECURITY)
        both = self.security
        if not both["runAsNonRoot"] or both["seccompProfile"] != {"type": "RuntimeDefault"}:
            raise Failure(f"{self.role}: may be root, or has no seccomp profile")
        words = ["--user", f"{both['runAsUser']}:{both['runAsGroup']}",
                 "--group-add", str(both["fsGroup"])]
        words += ["--read-only", "--read-only-tmpfs=false"] if own["readOnlyRootFilesystem"] else []
        words += [] if own["allowPrivilegeEscalation"] else ["--security-opt", "no-new-privileges"]
        return words + [f"--cap-drop={name.lower()}" for name in own["capabilities"]["drop"]]

    def limits(self):
        limits = self.container["resources"]["limits"]
        words = ["--memory", str(bytes_of(limits["memory"]))]
        cpu = limits.get("cpu", "")
        if cpu:
            words += ["--cpus", str(int(cpu[:-1]) / 1000 if cpu.endswith("m") else cpu)]
        return words

    def arguments(self, name, address, index, place, changes):
        """What follows `podman run`. `changes` replaces variables of the environment; None removes one."""
        fields = {"status.podIP": address, "metadata.name": name,
                  "metadata.labels['apps.kubernetes.io/pod-index']": str(index)}
        values = self.environment(fields) | changes
        words = ["--name", name, "--hostname", name, "--ip", address, "--pull", "never"]
        words += self.confinement() + self.limits() + self.volumes(place)
        words += ["--stop-timeout", str(self.grace)]
        for variable, value in values.items():
            words += ["--env", f"{variable}={value}"] if value is not None else []
        words.append(self.container["image"])
        for word in self.container.get("args", []):
            words.append(re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], word))
        return words
