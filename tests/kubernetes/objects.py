"""objects.py - the objects that kustomize renders, and whether they are what their schemas say."""
import os
import subprocess

import kubernetes_validate
import yaml

KUBERNETES = "1.37"


class Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it, which is without a key twice."""

    def construct_mapping(self, node, deep=False):
        names = [key.value for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{name} is there twice",
                                                        node.start_mark)
        return super().construct_mapping(node, deep)


def load(text):
    return [item for item in yaml.load_all(text, Loader) if item]


def render(folder):
    """The objects of a kustomization. The sources are read strictly too: kustomize takes a key twice."""
    for place, _, names in os.walk("deploy/k8s"):
        for name in names:
            if name.endswith(".yaml"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    load(file.read())
    run = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True,
                         timeout=120)
    return load(run.stdout)


def keygen(name):
    """The Secret and the ConfigMap that `cadre keygen` prints."""
    program = os.path.join(os.environ["CADRE_BIN_DIR"], "cadre")
    run = subprocess.run([program, "keygen", "--kubernetes", name], capture_output=True, text=True,
                         check=True, timeout=60)
    return [item | {"generated": True} for item in load(run.stdout)]


def title(item):
    return f"{item['kind']} {item['metadata']['name']}"


# JobSet is no part of Kubernetes: the fields of jobset.x-k8s.io/v1alpha2 that may stand in its spec.
JOBSET = {"network", "replicatedJobs", "successPolicy", "failurePolicy", "startupPolicy", "suspend",
          "coordinator", "managedBy", "ttlSecondsAfterFinished", "volumeClaimPolicies"}
JOBSET_JOB = {"name", "groupName", "replicas", "template", "dependsOn"}
JOBSET_NETWORK = {"enableDNSHostnames", "subdomain", "publishNotReadyAddresses"}
JOBSET_SUCCESS = {"operator", "targetReplicatedJobs"}


def unknown(place, item, known):
    return [f"{place}: unknown field {name}" for name in sorted(set(item) - known)]


def jobset_faults(item):
    spec = item["spec"]
    found = unknown("spec", spec, JOBSET)
    found += unknown("spec.network", spec.get("network", {}), JOBSET_NETWORK)
    success = spec.get("successPolicy", {})
    found += unknown("spec.successPolicy", success, JOBSET_SUCCESS)
    if success.get("operator") not in (None, "All", "Any"):
        found.append("spec.successPolicy.operator is neither All nor Any")
    names = [job.get("name") for job in spec["replicatedJobs"]]
    for name in success.get("targetReplicatedJobs", []):
        if name not in names:
            found.append(f"spec.successPolicy: there is no replicated job {name}")
    for job in spec["replicatedJobs"]:
        found += unknown(f"replicatedJobs.{job.get('name')}", job, JOBSET_JOB)
        found += [f"replicatedJobs.{job['name']}: {fault}" for fault in schema_fault(job_of(job))]
    return found


# The same of kubeflow.org/v1's TFJob.
TFJOB = {"runPolicy", "successPolicy", "tfReplicaSpecs", "enableDynamicWorker"}
TFJOB_RUN = {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit",
             "schedulingPolicy", "suspend", "managedBy"}
TFJOB_REPLICAS = {"replicas", "template", "restartPolicy"}
TFJOB_RESTARTS = ("Always", "OnFailure", "Never", "ExitCode")


def tfjob_faults(item):
    spec = item["spec"]
    found = unknown("spec", spec, TFJOB) + unknown("spec.runPolicy", spec.get("runPolicy", {}), TFJOB_RUN)
    for role, replicas in spec["tfReplicaSpecs"].items():
        if role not in ("Chief", "Master", "PS", "Worker", "Evaluator"):
            found.append(f"there is no role {role}")
        found += unknown(role, replicas, TFJOB_REPLICAS)
        if replicas.get("restartPolicy") not in TFJOB_RESTARTS:
            found.append(f"{role}: restartPolicy {replicas.get('restartPolicy')}")
        if [one["name"] for one in replicas["template"]["spec"]["containers"]] != ["tensorflow"]:
            found.append(f"{role}: its container is not called tensorflow")
        pods = {"apiVersion": "v1", "kind": "PodTemplate", "template": replicas["template"]}
        found += [f"{role}: {fault}" for fault in schema_fault(pods)]
    return found


def job_of(replicated):
    """The Job that JobSet makes of an element of its replicatedJobs."""
    template = replicated["template"]
    metadata = template.get("metadata", {}) | {"name": replicated["name"]}
    rest = {name: value for name, value in template.items() if name != "metadata"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata} | rest


def schema_fault(item):
    if item["kind"] == "JobSet" and item["apiVersion"] == "jobset.x-k8s.io/v1alpha2":
        return jobset_faults(item)
    if item["kind"] == "TFJob" and item["apiVersion"] == "kubeflow.org/v1":
        return tfjob_faults(item)
    item = {name: value for name, value in item.items() if name != "generated"}
    try:
        kubernetes_validate.validate(item, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message[:300]}"]
    except kubernetes_validate.SchemaNotFoundError as error:
        return [error.message]
    return []


def schema_faults(found):
    return [f"{title(item)}: {fault}" for item in found for fault in schema_fault(item)]
