#!/usr/bin/env bash
# Reports for the browser test: pages.sh TARGET OUT, with the programs of TARGET (target/debug).
set -euo pipefail
target=$(realpath "$1")
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
veridical train net --model mlp:16 --data work/images --epochs 4 --validation 0.2 --out work/net
veridical evaluate --run work/net --html network.html
veridical refit-head --run work/net --html refit.html --out work/refit
# Ten trainings of one shop, a refresh that is published and one that is stopped.
veridical demo --out work/demo
cp work/demo/stability.html stability.html
cp work/demo/published/report.html published.html
cp work/demo/stopped/report.html stopped.html
