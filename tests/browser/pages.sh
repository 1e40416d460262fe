#!/usr/bin/env bash
# Reports for the browser test: pages.sh TARGET OUT, with the programs of TARGET (target/debug).
set -euo pipefail
target=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
rm -rf "$2" && mkdir -p "$2/work"
cd "$2"
"$target/examples/gallery" gallery.html
veridical() { "$target/veridical" --quiet "$@" >/dev/null; }
veridical data generate shop --users 80 --items 60 --out work/shop
data=(--interactions work/shop/interactions.csv --split leave-last-one)
veridical train bpr "${data[@]}" --dim 8 --epochs 2 --out work/run
veridical evaluate --run work/run --html evaluate.html
items=work/run/vectors/item.parquet
veridical featurize new --data $items --out work/spec.json
veridical featurize check --spec work/spec.json $items --html check.html
veridical data generate images --images 200 --test-images 60 --size 8 --classes 3 --out work/images
veridical train net --model mlp:16 --data work/images --epochs 3 --validation 0.2 --out work/net
veridical evaluate --run work/net --html network.html
veridical refit-head --run work/net --html refit.html --out work/refit
veridical explain --run work/net --html explain.html
veridical explain audit --run work/net --kernels trntk,ck --html audit.html
veridical explain labels --run work/net --html labels.html
veridical kernel compute --run work/net --sketch sjlt:512 --sketch-all --out work/kernel
veridical kernel check work/kernel --html kernel.html
veridical kernel classify --run work/net --kernel ck --html classify.html
veridical explain validate --run work/net --effects removal,similarity --subsets 6 --curve-queries 2 --html validate.html
veridical forensics scan --run work/net --html scan.html
veridical data poison --data work/images --patch 2x2@6,6 --fraction 0.1 --target 0 --out work/poisoned
veridical train net --model mlp:16 --data work/poisoned --epochs 15 --out work/poisoned-net
veridical forensics trace --run work/poisoned-net --incidents work/poisoned/triggered --class 0 --retrain --html trace.html
veridical forensics check --run work/poisoned-net --suspects work/poisoned/planted.csv --queries work/poisoned/triggered --html check-suspects.html
# Ten trainings of one shop, a refresh that is published and one that is stopped.
veridical demo --out work/demo
cp work/demo/stability.html stability.html
cp work/demo/live/2026-01-06/report.html published.html
cp work/demo/live/2026-01-07.rejected/report.html stopped.html
# A month of days: some rejected, and from the middle on one that drifts.
python3 "$here/month.py" work/month
for day in $(seq -w 1 30); do
    veridical refresh --reference work/month/reference.npz --new "work/month/$day.npz" --budget work/month/budget.toml \
        --out work/live --date "2026-11-$day" --probes 100 --pairs 2000 --kernel-ids 200 || [ $? = 1 ]
done
veridical refresh history work/live --html history.html
