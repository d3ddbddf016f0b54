#!/bin/bash
# setup-debian.sh - installs the Debian packages that building Cadre needs.
#
#   deploy/setup-debian.sh            what building and running need
#   deploy/setup-debian.sh --tests    and what the tests need
#   deploy/setup-debian.sh --fuzz     and what `make fuzz` needs
#   deploy/setup-debian.sh --containers   and what building images and running tests/containers needs,
#                                     but for a kubectl on Debian 12, whose own is too old
#   deploy/setup-debian.sh --slurm    and what running tests/slurm needs
#   deploy/setup-debian.sh --list ... prints the packages, installs nothing
#   deploy/setup-debian.sh --check-kubectl   whether kubectl is one that the tests can use, installs nothing
#
# It asks dpkg first and touches nothing when all is there. Otherwise it needs root or sudo, and a
# way to a Debian mirror. On other systems it says what is needed and lets CMake look for it.
set -euo pipefail

packages=(
    gcc libc6-dev make cmake ninja-build pkg-config
    libzmq3-dev libmsgpack-dev liblmdb-dev libjansson-dev libxxhash-dev zlib1g-dev libzstd-dev
    libopenblas-dev libmicrohttpd-dev
)
test_packages=(libcriterion-dev libczmq-dev clang-format-14 clang-tidy-14 g++ python3 python3-venv
    python3-numpy)
fuzz_packages=(clang-14 libclang-rt-14-dev)
container_packages=(podman runc buildah netavark aardvark-dns catatonit iptables debootstrap python3 python3-venv)
slurm_packages=(slurmctld slurmd slurm-client)
# Kubernetes' schemas, PyYAML and a runner of compose files, for the tests of deploy/; used where kubectl is
# there.
python_packages=(kubernetes-validate==1.37.0 podman-compose==1.6.0)
python_place=$(dirname "$0")/../build/python

list_only=0 python=0 kubectl=0 check_kubectl=0
for argument in "$@"; do
    case $argument in
    --tests)
        packages+=("${test_packages[@]}")
        python=1
        ;;
    --fuzz) packages+=("${test_packages[@]}" "${fuzz_packages[@]}") ;;
    --containers)
        packages+=("${container_packages[@]}")
        python=1 kubectl=1
        ;;
    --slurm) packages+=("${slurm_packages[@]}") ;;
    --list) list_only=1 ;;
    --check-kubectl) check_kubectl=1 ;;
    *)
        echo "setup-debian: unknown argument '$argument' (known: --tests, --fuzz, --containers, --slurm, --list)" >&2
        exit 2
        ;;
    esac
done
if [ $list_only = 1 ]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi

# Whether there is a kubectl with kustomize 5: that of Debian 12, 1.20, does not know what deploy/k8s says.
kubectl_suffices() {
    local minor
    minor=$(kubectl version --client -o json 2>/dev/null | sed -n 's/.*"minor": "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${minor:-0}" -ge 27 ]
}

if [ $check_kubectl = 1 ]; then
    kubectl_suffices
    exit
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "setup-debian: this is no Debian; Cadre needs what these packages hold: ${packages[*]}" >&2
    exit 0
fi

# Prints those of its arguments that are not installed.
missing_of() {
    local installed package
    installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null |
        awk '$1 == "installed" {print $2}')
    for package in "$@"; do
        grep -qxF "$package" <<<"$installed" || echo "$package"
    done
}

# Puts python_packages into a folder of their own. Without a way to PyPI the tests that need them are
# skipped.
install_python() {
    [ $python = 1 ] && kubectl_suffices || return 0
    [ "$(cat "$python_place/packages" 2>/dev/null)" != "${python_packages[*]}" ] || return 0
    echo "setup-debian: installing from PyPI: ${python_packages[*]}" >&2
    if python3 -m venv "$python_place" && "$python_place/bin/python3" -m pip install -q --disable-pip-version-check \
        --retries 2 --timeout 20 "${python_packages[@]}"; then
        echo "${python_packages[*]}" >"$python_place/packages"
    else
        echo "setup-debian: could not install them: tests/kubernetes and tests/containers will be skipped" >&2
    fi
}

say_kubectl() {
    [ $kubectl = 1 ] && ! kubectl_suffices || return 0
    echo "setup-debian: there is no kubectl of 1.27 or later: tests/kubernetes and tests/containers will be skipped" >&2
    echo "setup-debian: Debian 12 has 1.20 only; for a later one see https://kubernetes.io/docs/tasks/tools/install-kubectl-linux/" >&2
    echo "setup-debian: then run this again: it installs what those tests need from PyPI" >&2
}

if [ $kubectl = 1 ] && ! kubectl_suffices && [ "$(. /etc/os-release && echo "$ID ${VERSION_ID:-}")" = "debian 13" ]; then
    packages+=(kubernetes-client)
fi
mapfile -t missing < <(missing_of "${packages[@]}")
if [ ${#missing[@]} = 0 ]; then
    install_python
    say_kubectl
    exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup-debian: missing packages: ${missing[*]}" >&2
        echo "setup-debian: neither root nor sudo is here; as root run:" >&2
        echo "    apt-get install ${missing[*]}" >&2
        exit 77
    fi
    as_root=(sudo)
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q \
        -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 \
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup-debian: installing ${#missing[@]} packages: ${missing[*]}" >&2
# An update that fails for one foreign source still brings Debian's lists: the install decides.
apt update >"$log" 2>&1 || true
if ! apt install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup-debian: could not install ${missing[*]}" >&2
    echo "setup-debian: is there a network and a Debian 12 mirror in /etc/apt?" >&2
    exit 69
fi
install_python
say_kubectl
