#!/usr/bin/env bash
# Reports for the browser test: pages.sh TARGET OUT, with the programs of TARGET (target/debug).
set -euo pipefail
target=$(realpath "$1")
rm -rf "$2" && mkdir -p "$2/work"
cd "$2"
"$target/examples/gallery" gallery.html
veridical() { "$target/veridical" --quiet "$@" >/dev/null; }
veridical data generate shop --users 600 --items 60 --out work/shop
data=(--interactions work/shop/interactions.csv --split leave-last-one)
veridical train bpr "${data[@]}" --dim 8 --epochs 2 --out work/run
veridical evaluate --run work/run --html evaluate.html
items=work/run/vectors/item.parquet
veridical featurize new --data $items --out work/spec.json
veridical featurize check --spec work/spec.json $items --html check.html
# Three days of one shop, and the last of them published.
veridical train item2vec "${data[@]}" --dim 8 --epochs 8 --seeds 3 --out work/days
labels=(--labels work/shop/items.csv --label-column cluster --folds 3 --multiples 2)
veridical stability work/days/seed-* "${labels[@]}" --html stability.html
# Exit code 1 is an answer: a gate that is not passed has a page too.
veridical refresh --reference work/days/seed-0 --new work/days/seed-1 --out work/published || [ $? = 1 ]
cp work/published/report.html refresh.html
veridical refresh --reference work/days/seed-0 --new work/days/seed-2 --min-nn-overlap 1 --out work/stopped || [ $? = 1 ]
cp work/stopped/report.html stopped.html
