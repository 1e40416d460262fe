#!/bin/sh
# run.sh NAME [ARGUMENTS]: runs benches/NAME/run.py in its own Python environment: .venv from requirements.txt, created when it is
# missing or when the requirements have changed. Further environments are .venv-X from requirements-X.txt; the report says so if
# one of them cannot be created. Arguments are passed to run.py. BENCH_VENV names an existing environment to use instead.
set -eu
name=$1
shift
folder=$(CDPATH='' cd -- "$(dirname -- "$0")/$name" && pwd)

# environment FOLDER REQUIREMENTS
environment() {
    cmp -s "$2" "$1/requirements.txt" && return
    "${PYTHON:-python3}" -m venv --clear "$1" &&
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$2" &&
        cp "$2" "$1/requirements.txt" # last, so that an incomplete environment is not reused
}

[ -n "${BENCH_VENV:-}" ] || environment "$folder/.venv" "$folder/requirements.txt"
for more in "$folder"/requirements-*.txt; do
    [ -e "$more" ] || continue
    suffix=${more##*/requirements-}
    environment "$folder/.venv-${suffix%.txt}" "$more" || true
done
# Peers get the same number of threads as ours; environment.sh may override it.
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 MKL_NUM_THREADS=2
[ ! -e "$folder/environment.sh" ] || . "$folder/environment.sh"
# machine.py is shared by all benchmarks.
export PYTHONPATH="$folder/.."
exec "${BENCH_VENV:-$folder/.venv}/bin/python" "$folder/run.py" "$@"
