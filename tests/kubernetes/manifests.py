"""manifests.py - checks deploy/k8s as kustomize renders it: schemas, cross references, pod security, programs.

Each overlay is rendered, each object validated strictly against the schema of a current Kubernetes, all of
them against each other and against the restricted pod security standard (lint.py), and what they hand to
Cadre is handed to Cadre: the job to `cadre config check`, the flags to `--check`.
"""
import os
import subprocess
import sys
import tempfile

import lint
import objects
import programs

OVERLAYS = ("cpu", "gpu", "curve", "jobset", "tfjob")


def main():
    failed = 0
    with tempfile.TemporaryDirectory(prefix="cadre-kubernetes-") as scratch:
        for overlay in OVERLAYS:
            found = objects.render(os.path.join("deploy/k8s/overlays", overlay))
            found += objects.keygen("cadre-keys")
            faults = objects.schema_faults(found) + lint.faults(found)
            faults += programs.faults(found, os.path.join(scratch, overlay))
            for fault in faults:
                print(f"{overlay}: {fault}")
            failed += len(faults)
            print(f"{overlay}: {len(found)} objects, {len(faults)} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(error.cmd)}: exit {error.returncode}: {error.stderr}")
