"""scenarios.py - what happens to a job in containers. Each returns its figure, or raises Failure."""
import concurrent.futures
import copy
import json
import os
import signal
import sys
import time

from cluster import WAIT_S, check_totals, wait
from engine import ROLES, Failure
from objects import keygen

SIZE_MAX = {"coordinator": 19e6, "ps": 19e6, "worker": 60e6}  # bytes; what is more has got in by mistake
CONFINED = ("--rm", "--pull", "never", "--read-only", "--network", "none", "--cap-drop=all",
            "--security-opt", "no-new-privileges")


def images(engine):
    """The images hold programs and libraries, run as nobody, and write nothing of theirs."""
    sizes = []
    for role in ROLES:
        image = engine.image(role)
        if image["Size"] > SIZE_MAX[role]:
            raise Failure(f"the image of a {role} has {image['Size']} bytes")
        if image["Config"]["User"] != "65532:65532":
            raise Failure(f"the image of a {role} runs as {image['Config']['User']}")
        sizes.append(f"{role} {image['Size'] / 1e6:.1f} MB")
        name = f"cadre-{role}:0.2.0"
        if "Usage" not in engine.call("run", *CONFINED, name, "--help"):
            raise Failure(f"the {role} does not start")
        if engine.call("run", *CONFINED, "--entrypoint", "/bin/sh", name, "-c", ":", check=False)[0] != 127:
            raise Failure(f"the image of a {role} has a shell")
    if not engine.call("run", *CONFINED, "cadre-coordinator:0.2.0", "version").startswith("cadre "):
        raise Failure("cadre version says something else")
    return ", ".join(sizes)


def train(cluster):
    """A job with all its pods, and what their probes and metrics tell."""
    cluster.start_tasks()
    tasks = list(cluster.pods.values())
    for pod in tasks:
        cluster.wait_probe(pod, "startupProbe")
        cluster.wait_probe(pod, "readinessProbe", 503)  # no coordinator yet
    cluster.start("coordinator")
    for pod in cluster.pods.values():
        cluster.wait_probe(pod, "readinessProbe")
    cluster.wait_training(workers=3)
    for pod in cluster.pods.values():
        cluster.wait_probe(pod, "livenessProbe")
        if "# TYPE cadre_" not in cluster.get(pod, 8080, "/metrics")[1]:
            raise Failure(f"{pod.name} tells no metrics")
    result = cluster.finish()
    for pod in tasks:  # they wait for the next job
        cluster.wait_probe(pod, "readinessProbe", 503)
        cluster.wait_probe(pod, "livenessProbe")
    return f"accuracy {result['accuracy']:.3f}, {result['closures']['finished']} closures; probes of 6 pods"


def kill(cluster):
    """A worker, a ps and the coordinator are killed while it trains."""
    cluster.start_all()
    cluster.wait_training(workers=3)
    worker = cluster.of("worker")[0]
    cluster.kill(worker)
    cluster.wait_said("coordinator", "worker_lost")
    cluster.restart(worker)
    cluster.wait_training(workers=3)
    ps = cluster.of("ps")[0]
    cluster.kill(ps)
    cluster.wait_said("coordinator", "ps_lost")
    cluster.restart(ps)
    cluster.wait_said("coordinator", "ps_restored")
    cluster.wait_training()
    cluster.kill(cluster.of("coordinator")[0])
    began = time.monotonic()
    cluster.replace_coordinator(["Count"])
    cluster.wait_said("coordinator", "resumed from")
    cluster.wait_training(1)
    resumed = time.monotonic() - began
    cluster.wait_training(workers=3)
    result = cluster.finish()
    failures = result["failures"]
    if failures["worker"] < 1 or failures["ps"] < 1:
        raise Failure(f"counted {failures}")
    return (f"{result['closures']['finished']} closures exactly once, "
            f"{result['closures']['attempts']} attempts; trains {resumed:.1f} s after a new coordinator")


def scale(cluster):
    """Workers 3 -> 5 -> 1 while it trains."""
    cluster.start_all()
    cluster.wait_training(workers=3)
    for _ in range(2):
        cluster.start("worker")
    cluster.wait_training(workers=5)
    leaving = cluster.of("worker")[1:]
    with concurrent.futures.ThreadPoolExecutor(len(leaving)) as pool:
        ends = list(pool.map(cluster.preempt, leaving))
    if {code for code, _ in ends} != {143}:
        raise Failure(f"workers that were told to leave ended with {ends}")
    for pod in leaving:
        cluster.remove(pod)
    cluster.wait_training(workers=1)
    result = cluster.finish()
    return (f"{result['closures']['finished']} closures exactly once; four workers left within "
            f"{max(took for _, took in ends):.1f} s")


def preempt(cluster):
    """SIGTERM to a worker, a ps and the coordinator, with 30 s each; other pods take their places."""
    cluster.start_all()
    cluster.wait_training(workers=3)
    told = []
    for role in ("worker", "ps"):
        pod = cluster.of(role)[0]
        code, took = cluster.preempt(pod)
        if code != 143:
            raise Failure(f"{pod.name} ended with {code}, not 143")
        cluster.remove(pod)
        cluster.start(role, pod.index)
        cluster.wait_training(workers=3)
        told.append(f"{role} {took:.1f} s")
    code, took = cluster.preempt(cluster.of("coordinator")[0])
    if code != 143:
        raise Failure(f"the coordinator ended with {code}, not 143")
    cluster.replace_coordinator(["Ignore"])
    cluster.wait_training(workers=3)
    told.append(f"coordinator {took:.1f} s")
    result = cluster.finish()
    return f"{', '.join(told)}; {result['closures']['finished']} closures exactly once"


def move(cluster):
    """A ps whose node is gone comes back at another address."""
    cluster.start_all()
    cluster.wait_training(workers=3)
    ps = cluster.of("ps")[1]
    cluster.kill(ps)
    cluster.remove(ps)
    began = time.monotonic()
    other = cluster.start("ps", ps.index)
    cluster.wait_said("coordinator", "ps_restored")
    took = time.monotonic() - began
    cluster.wait_training(workers=3)
    result = cluster.finish()
    return (f"{ps.address} -> {other.address}, restored {took:.1f} s after its start; "
            f"{result['closures']['finished']} closures exactly once")


def strangers(cluster):
    """A pod without a key, one with the key of another job, and one with a worker's key that tries to be a ps."""
    cluster.start_all()
    cluster.wait_training(workers=3)
    plain = cluster.start("worker", changes={"CADRE_KEYS": None, "CADRE_INSECURE_TRANSPORT": "1"})
    cluster.wait_said(plain, "handshake_failed", "it wants a key")
    secret = copy.deepcopy(cluster.secret())
    files = secret["stringData"]
    files["worker.key"] = keygen("cadre-keys")[0]["stringData"]["worker.key"]
    other = cluster.start("worker", template=cluster.template_with("worker", secret))
    said = [cluster.wait_said("coordinator", "key_refused", other.address)]
    secret = copy.deepcopy(cluster.secret())
    files = secret["stringData"]
    files["ps.key"] = files["worker.key"]
    honest = cluster.start("ps", 2, template=cluster.template_with("ps", secret))
    wait("a ps to see that its key is a worker's", lambda: not cluster.state(honest)[0])
    files["ps.key"] = files["worker.key"].replace('role = "worker"', 'role = "ps"')
    forged = cluster.start("ps", 3, template=cluster.template_with("ps", secret))
    said.append(cluster.wait_said("coordinator", "messages_dropped", "role worker speaks as ps/3"))
    if cluster.said([forged], ["joined"]):
        raise Failure("a ps with a worker's key has joined")
    cluster.wait_training(workers=3)
    cluster.finish()
    return "; ".join(line.removeprefix("warning: ") for line in said)


def revoke(cluster):
    """A second key for workers is allowed and the first one revoked, while it trains, as docs/keys.md says."""
    cluster.start_all()
    cluster.wait_training(workers=3)
    old = cluster.of("worker")
    pairs, public = keygen("cadre-keys")
    secret = copy.deepcopy(cluster.secret())
    secret["stringData"]["worker.key"] = pairs["stringData"]["worker.key"]
    renewed = cluster.template_with("worker", secret)
    cluster.start("worker", template=renewed)
    cluster.wait_said("coordinator", "key_refused")
    cluster.allowed()["worker-2.pub"] = public["data"]["worker.pub"]
    cluster.update_pods()
    cluster.wait_training(workers=4)

    del cluster.allowed()["worker.pub"]
    began = time.monotonic()
    cluster.update_pods()
    for role in ("coordinator", "ps"):
        cluster.wait_said(role, "key_revoked")
    took = time.monotonic() - began
    for pod in old:
        cluster.wait_said(pod, "handshake_failed")
    cluster.wait_training(workers=1)
    cluster.finish()
    return f"revoked {took:.1f} s after its file was gone; three workers are out, one goes on"


def tf_config(cluster):
    """The pods of a TFJob, which TF_CONFIG alone tells who they are; a ps is killed."""
    coordinator = cluster.start_all()
    cluster.wait_training(workers=3)
    ps = cluster.of("ps")[0]
    cluster.kill(ps)
    cluster.restart(ps)
    cluster.wait_said("coordinator", "ps_restored")
    wait("the end of the job", lambda: not cluster.state(coordinator)[0], 2 * WAIT_S)
    result = cluster.result(coordinator)
    check_totals(result, 600)
    return f"accuracy {result['accuracy']:.3f}, {result['closures']['finished']} closures exactly once"


def compose(engine):
    """deploy/compose: a worker is killed, podman starts it again."""
    keys = f"{engine.place}/keys"
    engine.run_cadre("keygen", keys)
    engine.run("chown", "-R", "65532:65532", keys)
    project = f"cadre-{os.getpid()}"
    variables = {"KEYS": keys, "PATH": engine.wrapper("podman"), "COMPOSE_PROJECT_NAME": project,
                 "JOB": f"{engine.place}/job.json"}
    with open("examples/digits.json", encoding="utf-8") as file:
        job = json.load(file)
    job["training"]["epochs"] = 200
    with open(variables["JOB"], "w", encoding="utf-8") as file:
        json.dump(job, file)
    os.chmod(variables["JOB"], 0o644)
    os.chmod(engine.place, 0o755)

    def call(*words, check=True):
        return engine.run(sys.executable, "-m", "podman_compose", "-f", "deploy/compose/compose.yaml",
                          *words, check=check, variables=variables)
    name = f"{project}_coordinator_1"
    try:
        call("up", "--detach")
        wait("training", lambda: "epoch=" in engine.call("logs", name, check=False)[1])
        worker = f"{project}_worker_1"
        state = json.loads(engine.call("inspect", worker))[0]["State"]
        os.kill(state["Pid"], signal.SIGKILL)  # not podman kill, after which podman starts nothing again
        wait("the end of the job", lambda: engine.call("inspect", "--format", "{{.State.Status}}", name) ==
             "exited")
        code = int(engine.call("inspect", "--format", "{{.State.ExitCode}}", name))
        text = engine.call("logs", name, check=False)[1]
        if code:
            raise Failure(f"the coordinator ended with {code}: {text[-3000:]}")
        result = json.loads(next(line for line in text.splitlines() if line.startswith('{"schema"')))
        check_totals(result, 200)
        restarts = json.loads(engine.call("inspect", worker))[0]["RestartCount"]
        if restarts != 1:
            raise Failure(f"the worker was started again {restarts} times")
        return f"accuracy {result['accuracy']:.3f}, {result['closures']['finished']} closures exactly once"
    except Failure:
        print(call("ps", check=False), call("logs", check=False)[-6000:])
        raise
    finally:
        call("down", "--volumes", check=False)


SCENARIOS = (
    ("images", None, images),
    ("train", "curve", train),
    ("plain", "plain", train),
    ("kill", "curve", kill),
    ("scale", "curve", scale),
    ("preempt", "curve", preempt),
    ("move", "curve", move),
    ("strangers", "curve", strangers),
    ("revoke", "curve", revoke),
    ("tf-config", "tfjob", tf_config),
    ("compose", None, compose),
)
