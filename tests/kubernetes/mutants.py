"""mutants.py - breaks the manifests in the ways that manifests.py is there to find; each must be found.

A mutant is a change to the objects of one overlay, and words that the fault must have. What changes nothing,
or is not found, fails.
"""
import copy
import sys
import tempfile

import lint
import objects
import programs


def item_of(found, kind, name):
    return next(item for item in found
                if item["kind"] == kind and item["metadata"]["name"].startswith(name))


def pod_spec(found, role):
    kind = {"coordinator": "Job", "ps": "StatefulSet", "worker": "Deployment"}[role]
    return item_of(found, kind, f"cadre-{role}")["spec"]["template"]["spec"]


def container(found, role):
    return pod_spec(found, role)["containers"][0]


def replace(words, old, new):
    words[:] = [word.replace(old, new) for word in words]


def drop(found, kind, name):
    found.remove(item_of(found, kind, name))


def volume(found, role, name):
    return next(item for item in pod_spec(found, role)["volumes"] if item["name"] == name)


def settings(found):
    return item_of(found, "ConfigMap", "cadre-settings")["data"]


MUTANTS = (
    # schemas
    ("unknown field", lambda o: container(o, "ps").update(imagePullPolcy="Always"), "imagePullPolcy"),
    ("number for a text", lambda o: settings(o).update(CADRE_WAIT_S=600), "not of type"),
    ("no such kind", lambda o: item_of(o, "Job", "").update(kind="Jobs"), "schema"),
    ("old version", lambda o: item_of(o, "PodDisruptionBudget", "").update(apiVersion="policy/v1beta1"),
     "schema"),
    ("wrong type", lambda o: container(o, "ps")["args"].append(5), "not of type"),
    # cross references
    ("selector", lambda o: item_of(o, "Deployment", "")["spec"]["selector"]["matchLabels"].update(
        {"app.kubernetes.io/component": "wroker"}), "does not match its own pods"),
    ("service that selects none", lambda o: item_of(o, "Service", "cadre-coordinator")["spec"]
     ["selector"].update({"app.kubernetes.io/component": "chief"}), "selects no pods"),
    ("service without its port", lambda o: item_of(o, "Service", "cadre-ps")["spec"]["ports"][0].update(
        targetPort="values"), "has no port values"),
    ("no headless service", lambda o: item_of(o, "Service", "cadre-ps")["spec"].pop("clusterIP"),
     "no headless Service"),
    ("no coordinator service", lambda o: drop(o, "Service", "cadre-coordinator"), "no such Service"),
    ("another port", lambda o: replace(container(o, "worker")["args"], ":4000", ":4040"),
     "no such port"),
    ("probe", lambda o: container(o, "ps")["readinessProbe"]["httpGet"].update(port="web"),
     "no port web"),
    ("no probe", lambda o: container(o, "worker").pop("livenessProbe"), "livenessProbe"),
    ("no config map", lambda o: drop(o, "ConfigMap", "cadre-settings"), "there is no ConfigMap"),
    ("no key", lambda o: item_of(o, "ConfigMap", "cadre-data")["binaryData"].clear(),
     "has no digits.csv.gz"),
    ("no secret", lambda o: drop(o, "Secret", "cadre-keys"), "there is no Secret"),
    ("no key of a role", lambda o: volume(o, "ps", "keys")["secret"]["items"][0].update(
        key="server.key"), "has no server.key"),
    ("public keys one by one", lambda o: volume(o, "ps", "allowed")["configMap"].update(
        items=[{"key": "worker.pub", "path": "worker.pub"}]), "cannot be revoked"),
    ("no public keys", lambda o: container(o, "ps")["volumeMounts"].remove(
        {"name": "allowed", "mountPath": "/keys/allowed", "readOnly": True}) or
     pod_spec(o, "ps")["volumes"].remove(volume(o, "ps", "allowed")), "cannot be revoked"),
    ("another role's key", lambda o: volume(o, "worker", "keys")["secret"]["items"].append(
        {"key": "ps.key", "path": "ps.key"}), "more keys than its own"),
    ("no claim", lambda o: drop(o, "PersistentVolumeClaim", ""), "no PersistentVolumeClaim"),
    ("no volume", lambda o: pod_spec(o, "worker")["volumes"].pop(), "there is no volume"),
    ("unused volume", lambda o: container(o, "worker")["volumeMounts"].pop(), "nothing mounts"),
    ("no variable", lambda o: container(o, "ps")["env"].clear(), "there is no variable"),
    ("no label", lambda o: next(item for item in container(o, "ps")["env"] if item["name"] == "PS_INDEX")
     ["valueFrom"]["fieldRef"].update(fieldPath="metadata.labels['index']"), "have no label index"),
    ("spread", lambda o: pod_spec(o, "ps")["topologySpreadConstraints"][0]["labelSelector"]
     ["matchLabels"].update({"app.kubernetes.io/component": "worker"}), "does not count its own"),
    ("budget", lambda o: item_of(o, "PodDisruptionBudget", "cadre-ps")["spec"]["selector"]["matchLabels"]
     .update({"app.kubernetes.io/component": "p"}), "selects no pods"),
    ("policy for a port", lambda o: item_of(o, "NetworkPolicy", "cadre-ps")["spec"]["ingress"][0]
     ["ports"][0].update(port="dta"), "has no port dta"),
    ("policy for all", lambda o: item_of(o, "NetworkPolicy", "cadre-ps")["spec"]["ingress"][0]
     .pop("from"), "lets everybody through"),
    ("no policy", lambda o: [drop(o, "NetworkPolicy", "cadre") for _ in range(4)],
     "no NetworkPolicy for Ingress"),
    ("namespace", lambda o: item_of(o, "Service", "cadre-ps")["metadata"].update(namespace="default"),
     "namespace default"),
    ("more ps", lambda o: item_of(o, "StatefulSet", "")["spec"].update(replicas=3), "CADRE_PS"),
    ("restarts of a job", lambda o: pod_spec(o, "coordinator").pop("restartPolicy"),
     "restartPolicy Always"),
    # pod security
    ("root", lambda o: pod_spec(o, "ps")["securityContext"].update(runAsUser=0), "runs as root"),
    ("perhaps root", lambda o: pod_spec(o, "worker")["securityContext"].pop("runAsNonRoot"),
     "runAsNonRoot"),
    ("seccomp", lambda o: pod_spec(o, "ps")["securityContext"].pop("seccompProfile"), "seccomp"),
    ("escalation", lambda o: container(o, "ps")["securityContext"].pop("allowPrivilegeEscalation"),
     "escalate"),
    ("capabilities", lambda o: container(o, "ps")["securityContext"]["capabilities"].update(
        drop=["NET_RAW"]), "capabilities"),
    ("host path", lambda o: volume(o, "ps", "tmp").update(emptyDir=None, hostPath={"path": "/"}) or
     volume(o, "ps", "tmp").pop("emptyDir"), "hostPath are forbidden"),
    ("host network", lambda o: pod_spec(o, "ps").update(hostNetwork=True), "hostNetwork"),
    ("standard", lambda o: item_of(o, "Namespace", "")["metadata"]["labels"].pop(
        "pod-security.kubernetes.io/enforce"), "does not enforce"),
    # our own rules
    ("writable root", lambda o: container(o, "coordinator")["securityContext"].update(
        readOnlyRootFilesystem=False), "can be written to"),
    ("memory", lambda o: container(o, "ps")["resources"]["limits"].update(memory="2Gi"),
     "request and limit differ"),
    ("latest", lambda o: container(o, "ps").update(image="cadre-ps:latest"), "has no tag"),
    ("token", lambda o: pod_spec(o, "ps").pop("automountServiceAccountToken"), "token of the cluster"),
    ("service links", lambda o: pod_spec(o, "ps").pop("enableServiceLinks"), "variables for each"),
    # what Cadre says
    ("job", lambda o: item_of(o, "ConfigMap", "cadre-job")["data"].update({"job.json": '{"modle": 1}'}),
     "exit 78"),
    ("setting", lambda o: settings(o).update(CADRE_WAIT_S="soon"), "CADRE_WAIT_S"),
    ("flag", lambda o: container(o, "worker")["args"].append("--no-such=5"), "exit 2"),
)


def faults(found, scratch):
    return objects.schema_faults(found) or lint.faults(found) or programs.faults(found, scratch)


def main():
    good = objects.render("deploy/k8s/overlays/curve") + objects.keygen("cadre-keys")
    missed = 0
    for name, change, words in MUTANTS:
        found = copy.deepcopy(good)
        change(found)
        with tempfile.TemporaryDirectory(prefix="cadre-kubernetes-") as scratch:
            try:
                said = faults(found, scratch)
            except (KeyError, ValueError) as error:
                said = [f"{type(error).__name__}: {error}"]
        if not any(words in text for text in said):
            missed += 1
            print(f"not found: {name}: wanted \"{words}\" in {said}")
    print(f"{len(MUTANTS)} mutants, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
