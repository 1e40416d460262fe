#!/bin/sh
# Runs the benchmark in its own Python environment, made from requirements.txt when it is missing or
# when requirements.txt has changed. Arguments go to run.py.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
venv=$here/.venv
if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --requirement "$here/requirements.txt"
    cp "$here/requirements.txt" "$venv/requirements.txt" # last: half an environment does not count
fi
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 MKL_NUM_THREADS=2
exec "$venv/bin/python" "$here/run.py" "$@"
