#!/bin/sh
# Runs the benchmark in its own Python environments, made from the requirements when one is missing or
# when they have changed. Arguments go to run.py.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

# environment FOLDER REQUIREMENTS
environment() {
    cmp -s "$2" "$1/requirements.txt" && return
    "${PYTHON:-python3}" -m venv --clear "$1" &&
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$2" &&
        cp "$2" "$1/requirements.txt" # last: half an environment does not count
}

environment "$here/.venv" "$here/requirements.txt"
# The report says so if this one cannot be made.
environment "$here/.venv-fastfood" "$here/requirements-fastfood.txt" || true
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 MKL_NUM_THREADS=2
exec "$here/.venv/bin/python" "$here/run.py" "$@"
