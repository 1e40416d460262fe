#!/bin/sh
# Runs the benchmark in its own Python environment, made from the requirements when it is missing or when
# they have changed. Arguments go to run.py.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

if ! cmp -s "$here/requirements.txt" "$here/.venv/requirements.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$here/.venv"
    "$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --requirement "$here/requirements.txt"
    cp "$here/requirements.txt" "$here/.venv/requirements.txt" # last: half an environment does not count
fi
# scikit-learn is held to as many threads as ours by run.py.
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 MKL_NUM_THREADS=2
exec "$here/.venv/bin/python" "$here/run.py" "$@"
