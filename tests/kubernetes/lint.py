"""lint.py - whether the objects of one rendering fit each other, and the restricted pod security standard.

What a schema cannot know: that a selector selects something, that what is named exists, that ports have the
names they are asked for by. Everything a pod may not do under the standard is checked as the standard says it
(https://kubernetes.io/docs/concepts/security/pod-security-standards/), and what we ask of ourselves besides:
a read-only root, probes, equal requests and limits of memory.
"""
import re

from objects import job_of, title

CLUSTER_WIDE = ("Namespace",)
VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
           "projected", "secret")


class Pods:
    """A pod template, and the object it is from."""

    def __init__(self, owner, name, template, indexed=None):
        self.owner, self.name = owner, name
        self.labels = template.get("metadata", {}).get("labels", {})
        self.spec = template["spec"]
        self.indexed = indexed  # the label that holds the index of a pod
        self.containers = self.spec.get("initContainers", []) + self.spec["containers"]

    def ports(self):
        return {port["name"]: port["containerPort"]
                for container in self.containers for port in container.get("ports", [])}


def pods_of(item):
    """The pod templates of one object."""
    kind = item["kind"]
    if kind == "JobSet":
        found = []
        for job in item["spec"]["replicatedJobs"]:
            for pods in pods_of(job_of(job)):
                pods.owner, pods.name = item, f"{title(item)}, {job['name']}"
                found.append(pods)
        return found
    if kind == "TFJob":
        return [Pods(item, f"{title(item)}, {role}", replicas["template"])
                for role, replicas in item["spec"]["tfReplicaSpecs"].items()]
    if kind in ("Deployment", "StatefulSet", "Job", "DaemonSet"):
        indexed = {"StatefulSet": "apps.kubernetes.io/pod-index"}.get(kind)
        if kind == "Job" and item["spec"].get("completionMode") == "Indexed":
            indexed = "batch.kubernetes.io/job-completion-index"
        return [Pods(item, title(item), item["spec"]["template"], indexed)]
    return []


def selects(selector, labels):
    for name, value in selector.get("matchLabels", {}).items():
        if labels.get(name) != value:
            return False
    for rule in selector.get("matchExpressions", []):
        inside = labels.get(rule["key"]) in rule.get("values", [])
        holds = {"In": inside, "NotIn": not inside, "Exists": rule["key"] in labels,
                 "DoesNotExist": rule["key"] not in labels}
        if not holds[rule["operator"]]:
            return False
    return True


class Lint:
    def __init__(self, found):
        self.found = found
        self.pods = [pods for item in found for pods in pods_of(item)]
        self.faults = []

    def say(self, where, text):
        self.faults.append(f"{where if isinstance(where, str) else title(where)}: {text}")

    def of_kind(self, kind):
        return {item["metadata"]["name"]: item for item in self.found if item["kind"] == kind}

    def selected(self, where, selector):
        """The templates that a selector selects; a fault when there are none."""
        pods = [pods for pods in self.pods if selects(selector, pods.labels)]
        if not pods:
            self.say(where, f"selects no pods: {selector}")
        return pods

    # --- objects ---

    def names(self):
        seen = set()
        spaces = set(self.of_kind("Namespace"))
        for item in self.found:
            if title(item) in seen:
                self.say(item, "is there twice")
            seen.add(title(item))
            space = item["metadata"].get("namespace")
            if item["kind"] not in CLUSTER_WIDE and not item.get("generated") and space not in spaces:
                self.say(item, f"its namespace {space} is not among the objects")
        for item in self.of_kind("Namespace").values():
            labels = item["metadata"].get("labels", {})
            if labels.get("pod-security.kubernetes.io/enforce") != "restricted":
                self.say(item, "does not enforce the restricted pod security standard")

    def workloads(self):
        for pods in self.pods:
            selector = pods.owner["spec"].get("selector")
            if pods.owner["kind"] in ("Deployment", "StatefulSet") and \
                    not selects(selector, pods.labels):
                self.say(pods.name, "its selector does not match its own pods")
            job = pods.owner["kind"] in ("Job", "JobSet")
            restart = pods.spec.get("restartPolicy", "Always")
            if restart not in (("Never", "OnFailure") if job else ("Always",)):
                self.say(pods.name, f"restartPolicy {restart} is not for such pods")
        for item in self.of_kind("StatefulSet").values():
            service = self.of_kind("Service").get(item["spec"]["serviceName"])
            if not service or service["spec"].get("clusterIP") != "None":
                self.say(item, f"there is no headless Service {item['spec']['serviceName']}")
            elif not selects({"matchLabels": service["spec"]["selector"]},
                             item["spec"]["template"]["metadata"]["labels"]):
                self.say(item, f"its Service {item['spec']['serviceName']} does not select its pods")

    def services(self):
        for service in self.of_kind("Service").values():
            for pods in self.selected(service, {"matchLabels": service["spec"]["selector"]}):
                for port in service["spec"]["ports"]:
                    target = port.get("targetPort", port["port"])
                    if isinstance(target, str) and target not in pods.ports():
                        self.say(service, f"{pods.name} has no port {target}")

    def disruption(self):
        for budget in self.of_kind("PodDisruptionBudget").values():
            for pods in self.selected(budget, budget["spec"]["selector"]):
                if pods.owner["kind"] in ("Job", "JobSet") and "maxUnavailable" in budget["spec"]:
                    self.say(budget, "pods of a Job take minAvailable only")

    def policy_peers(self, policy, rule, side, own):
        """The templates whose ports a rule names."""
        peers = []
        for peer in rule.get(side, []):
            if "namespaceSelector" not in peer:
                peers += self.selected(policy, peer["podSelector"])
        return own if side == "from" else peers

    def network(self):
        covered = {"Ingress": set(), "Egress": set()}
        for policy in self.of_kind("NetworkPolicy").values():
            spec = policy["spec"]
            own = self.selected(policy, spec["podSelector"])
            for direction in spec["policyTypes"]:
                covered[direction].update(pods.name for pods in own)
            for direction, side in (("ingress", "from"), ("egress", "to")):
                for rule in spec.get(direction, []):
                    if not rule.get(side):
                        self.say(policy, f"a rule of {direction} that lets everybody through")
                    peers = self.policy_peers(policy, rule, side, own)
                    for port in rule.get("ports", []):
                        for pods in peers:
                            if isinstance(port["port"], str) and port["port"] not in pods.ports():
                                self.say(policy, f"{pods.name} has no port {port['port']}")
        for pods in self.pods:
            for direction, names in covered.items():
                if pods.name not in names:
                    self.say(pods.name, f"no NetworkPolicy for {direction}")

    # --- what pods name ---

    def source(self, where, kind, reference, keys=()):
        name = reference.get("name") or reference.get("secretName")
        item = self.of_kind(kind).get(name)
        if not item:
            self.say(where, f"there is no {kind} {name}")
            return {}
        content = item.get("data", {}) | item.get("binaryData", {}) | item.get("stringData", {})
        for key in keys:
            if key not in content:
                self.say(where, f"{kind} {name} has no {key}")
        return content

    def environment(self, pods, container):
        names = set()
        for source in container.get("envFrom", []):
            names |= set(self.source(pods.name, "ConfigMap", source["configMapRef"]))
        for variable in container.get("env", []):
            names.add(variable["name"])
            origin = variable.get("valueFrom", {})
            for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                if field in origin:
                    self.source(pods.name, kind, origin[field], [origin[field]["key"]])
            path = origin.get("fieldRef", {}).get("fieldPath", "")
            label = re.fullmatch(r"metadata\.labels\['(.*)'\]", path)
            if label and label[1] not in pods.labels and label[1] != pods.indexed:
                self.say(pods.name, f"{variable['name']}: its pods have no label {label[1]}")
        return names

    def arguments(self, pods, container, names):
        for text in container.get("command", []) + container.get("args", []):
            for name in re.findall(r"\$\((\w+)\)", text):
                if name not in names:
                    self.say(pods.name, f"{text}: there is no variable {name}")
            address = re.fullmatch(r"--coordinator=([\w.-]+):(\d+)", text)
            if address:
                service = self.of_kind("Service").get(address[1].split(".")[0])
                if not service:
                    self.say(pods.name, f"{text}: there is no such Service")
                elif int(address[2]) not in [port["port"] for port in service["spec"]["ports"]]:
                    self.say(pods.name, f"{text}: the Service has no such port")

    def volumes(self, pods):
        volumes = {volume["name"]: volume for volume in pods.spec.get("volumes", [])}
        mounted = set()
        for container in pods.containers:
            paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            if len(set(paths)) < len(paths):
                self.say(pods.name, f"two volumes at one path: {paths}")
            for mount in container.get("volumeMounts", []):
                mounted.add(mount["name"])
                if mount["name"] not in volumes:
                    self.say(pods.name, f"there is no volume {mount['name']}")
        for name, volume in volumes.items():
            if name not in mounted:
                self.say(pods.name, f"nothing mounts the volume {name}")
            for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
                if field in volume:
                    items = [item["key"] for item in volume[field].get("items", [])]
                    self.source(pods.name, kind, volume[field], items)
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and claim not in self.of_kind("PersistentVolumeClaim"):
                self.say(pods.name, f"there is no PersistentVolumeClaim {claim}")

    def keys(self, pods):
        """A pod has the pair of its role alone, and all public keys: what is named is never taken away."""
        volumes = {volume["name"]: volume for volume in pods.spec.get("volumes", [])}
        for container in pods.containers:
            folder = {item["name"]: item.get("value") for item in container.get("env", [])}.get("CADRE_KEYS")
            mounts = {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}
            own = volumes.get(mounts.get(folder, {}).get("name"), {}).get("secret", {})
            role = pods.labels["app.kubernetes.io/component"]
            if folder and [item["key"] for item in own.get("items", [])] != [f"{role}.key"]:
                self.say(pods.name, f"{folder}: more keys than its own, or none")
            public = mounts.get(f"{folder}/allowed", {})
            source = volumes.get(public.get("name"), {}).get("configMap")
            if folder and (source is None or "items" in source or "subPath" in public):
                self.say(pods.name, f"{folder}/allowed is not a whole ConfigMap: keys cannot be revoked")

    def references(self, pods):
        for container in pods.containers:
            names = self.environment(pods, container)
            self.arguments(pods, container, names)
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                port = container.get(probe, {}).get("httpGet", {}).get("port")
                if port not in pods.ports():
                    self.say(pods.name, f"{probe}: there is none, or no port {port}")
        self.volumes(pods)
        for spread in pods.spec.get("topologySpreadConstraints", []):
            if not selects(spread["labelSelector"], pods.labels):
                self.say(pods.name, "a topology spread that does not count its own pods")

    # --- the restricted standard ---

    def pod_security(self, pods):
        spec = pods.spec
        whole = spec.get("securityContext", {})
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(name):
                self.say(pods.name, f"{name} is forbidden")
        for volume in spec.get("volumes", []):
            kind = [name for name in volume if name != "name"]
            if kind and kind[0] not in VOLUMES:
                self.say(pods.name, f"volumes of kind {kind[0]} are forbidden")
        if whole.get("sysctls"):
            self.say(pods.name, "sysctls")
        for container in pods.containers:
            own = container.get("securityContext", {})
            both = whole | own
            wanted = (
                (both.get("runAsNonRoot") is True, "runAsNonRoot is not true"),
                (both.get("runAsUser", 1) != 0, "runs as root"),
                (both.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
                 "has no seccomp profile"),
                (own.get("allowPrivilegeEscalation") is False, "may escalate its privileges"),
                (own.get("capabilities", {}).get("drop") == ["ALL"], "does not drop all capabilities"),
                (set(own.get("capabilities", {}).get("add", [])) <= {"NET_BIND_SERVICE"},
                 "adds capabilities"),
                (not own.get("privileged"), "is privileged"),
                (own.get("procMount", "Default") == "Default", "has its own procMount"),
                (not any(port.get("hostPort") for port in container.get("ports", [])), "has a hostPort"),
            )
            for holds, text in wanted:
                if not holds:
                    self.say(pods.name, f"restricted: {container['name']} {text}")

    def own_rules(self, pods):
        for container in pods.containers:
            resources = container.get("resources", {})
            memory = [resources.get(side, {}).get("memory") for side in ("requests", "limits")]
            tag = container["image"].rpartition(":")[2]
            wanted = (
                (container.get("securityContext", {}).get("readOnlyRootFilesystem") is True,
                 "its root can be written to"),
                (memory[0] and memory[0] == memory[1], "memory: request and limit differ"),
                (resources.get("requests", {}).get("cpu"), "requests no CPU"),
                (":" in container["image"] and tag != "latest", f"image {container['image']} has no tag"),
                (pods.spec.get("automountServiceAccountToken") is False, "gets a token of the cluster"),
                (pods.spec.get("enableServiceLinks") is False, "gets variables for each Service"),
            )
            for holds, text in wanted:
                if not holds:
                    self.say(pods.name, f"{container['name']}: {text}")

    def agreement(self):
        """As many ps as the job expects."""
        settings = [item for item in self.found if item["kind"] == "ConfigMap" and
                    "CADRE_PS" in item.get("data", {})]
        count = [item["spec"]["replicas"] for item in self.of_kind("StatefulSet").values()]
        for item in self.of_kind("JobSet").values():
            count += [job["template"]["spec"]["completions"] for job in item["spec"]["replicatedJobs"]
                      if job["name"] == "ps"]
        count += [item["spec"]["tfReplicaSpecs"]["PS"]["replicas"]
                  for item in self.of_kind("TFJob").values()]
        if [int(item["data"]["CADRE_PS"]) for item in settings] != count:
            self.say("cadre-settings", f"CADRE_PS is not the number of ps, {count}")


def faults(found):
    lint = Lint(found)
    for rule in (lint.names, lint.workloads, lint.services, lint.disruption, lint.network,
                 lint.agreement):
        rule()
    for pods in lint.pods:
        for rule in (lint.references, lint.keys, lint.pod_security, lint.own_rules):
            rule(pods)
    if not lint.pods:
        lint.say("all", "there are no pods")
    return lint.faults
