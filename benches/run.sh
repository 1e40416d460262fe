#!/bin/sh
# run.sh NAME [ARGUMENTS]: runs benches/NAME/run.py in its own Python environment: .venv from requirements.txt, made when it is
# missing or when they have changed. Further environments are .venv-X from requirements-X.txt; the report says so if one of
# them cannot be made. Arguments go to run.py. BENCH_VENV names an environment that is there already.
set -eu
name=$1
shift
folder=$(CDPATH='' cd -- "$(dirname -- "$0")/$name" && pwd)

# environment FOLDER REQUIREMENTS
environment() {
    cmp -s "$2" "$1/requirements.txt" && return
    "${PYTHON:-python3}" -m venv --clear "$1" &&
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$2" &&
        cp "$2" "$1/requirements.txt" # last: half an environment does not count
}

[ -n "${BENCH_VENV:-}" ] || environment "$folder/.venv" "$folder/requirements.txt"
for more in "$folder"/requirements-*.txt; do
    [ -e "$more" ] || continue
    suffix=${more##*/requirements-}
    environment "$folder/.venv-${suffix%.txt}" "$more" || true
done
# Peers get as many threads as ours; a bench may know better.
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 MKL_NUM_THREADS=2
[ ! -e "$folder/environment.sh" ] || . "$folder/environment.sh"
# machine.py is for all of them.
export PYTHONPATH="$folder/.."
exec "${BENCH_VENV:-$folder/.venv}/bin/python" "$folder/run.py" "$@"
