#!/usr/bin/env bash
# Runs every verb of a `veridical` binary on small generated data and keeps all that a refactoring must not change:
# `tests/snapshot.sh OLD a && tests/snapshot.sh NEW b && diff -r a b` (BINARY, then a FOLDER that is not there yet).
set -euo pipefail
export LC_ALL=C

if [[ $# != 2 || ! -x $1 || -e $2 ]]; then
    echo "usage: tests/snapshot.sh BINARY FOLDER, with a FOLDER that is not there yet" >&2
    exit 2
fi
binary=$(realpath "$1")
oracles=$(realpath "$(dirname "$0")")/oracles
mkdir -p "$2/out"
cd "$2"
unset VERIDICAL_DATA COLUMNS CLICOLOR_FORCE
exec </dev/null

threads=2
limit=
seconds=
count=0 zero=0 surprises=()

# Notes of runs side by side in the order of their seeds; of the notes on epochs, which come by the clock, the last.
tidy() {
    awk '{ seed = $2 == "seed" ? $3 : $3 == "seed" ? $4 : ""
           if ((seed != "") != was) part++
           was = seed != ""; print part + 0 "\t" seed + 0 "\t" $0 }' |
        sort -s -t "$(printf '\t')" -k1,1n -k2,2n | cut -f3- |
        awk '{ is = /^veridical: (seed [0-9]+: )?epoch [0-9]+\//; head = $0; sub(/epoch .*/, "", head)
               number = $0; sub(/.*epoch /, "", number); number += 0
               if (held && !(is && head == before && number > last)) print line
               if (is) { held = 1; line = $0; before = head; last = number } else { held = 0; print } }
             END { if (held) print line }'
}

# expect CODE NAME ARGS...: runs a command and keeps what it says as out/NAME.stdout and out/NAME.stderr. With `limit`
# set no file may grow beyond so many KiB; with `seconds` set the command is interrupted after so long.
expect() {
    local want=$1 name=$2 code=0
    shift 2
    if [[ -e out/$name.stdout ]]; then
        echo "snapshot.sh: two commands are called $name" >&2
        exit 2
    fi
    (
        if [[ -n $limit ]]; then
            ulimit -f "$limit"
            trap '' XFSZ
        fi
        [[ -z $seconds ]] || exec timeout --preserve-status --signal INT "$seconds" "$binary" "$@"
        exec -a veridical "$binary" ${threads:+--threads "$threads"} "$@"
    ) >"out/$name.stdout" 2>stderr || code=$?
    tidy <stderr >"out/$name.stderr"
    rm stderr
    printf '%s %s: %s\n' "$code" "$name" "$*" >>out/commands.txt
    count=$((count + 1))
    [[ $code != 0 ]] || zero=$((zero + 1))
    [[ $code == "$want" ]] || surprises+=("$name: exit code $code, not $want: $(tail -n 1 "out/$name.stderr")")
}

# A command that must succeed.
run() { expect 0 "$@"; }

# A command that must succeed, as text and as JSON; `%` in its arguments becomes nothing and `-json`.
both() {
    local name=$1
    shift
    run "$name" "${@//%/}"
    run "$name-json" "${@//%/-json}" --json
}

# A command that must be refused with exit code 2.
bad() { expect 2 "bad-$@"; }

# ---------------------------------------------------------------------------------------------------------------------
# Help, manual, completions
# ---------------------------------------------------------------------------------------------------------------------

run version --version
run help --help
run help-short -h
run help-verb help featurize apply
for verb in train tune evaluate recommend similar predict refit-head stability refresh align featurize vectors data \
    demo reproduce completions man; do
    run "help-$verb" $verb --help
    run "help-short-$verb" $verb -h
done
methods=(mf als bpr item2vec doc2vec ppmi-svd sasrec two-tower pop itemknn ease)
for method in "${methods[@]}"; do
    run "help-train-$method" train "$method" --help
    run "help-tune-$method" tune "$method" --help
done
for verb in "train net" "train text" "stability budget" "data describe" "data split" "data generate" "data graph" \
    "data embed" "vectors head" "vectors stats" "vectors convert" "featurize new" "featurize apply" \
    "featurize describe" "featurize plan" "featurize check" "featurize export" "reproduce list" "reproduce show" \
    "reproduce run"; do
    run "help-${verb// /-}" $verb --help
done
both man man
both man-verb man train two-tower
both man-pages man --out man%
for shell in bash zsh fish powershell elvish; do run "completions-$shell" completions $shell; done
run completions-json completions bash --json

# ---------------------------------------------------------------------------------------------------------------------
# Data
# ---------------------------------------------------------------------------------------------------------------------

shop=(data generate shop --users 120 --items 110 --clusters 4 --per-user 16 --skew 0.5 --seed 1)
both generate-shop "${shop[@]}" --out shop%
run generate-shop-again "${shop[@]}" --noise 0.2 --out shop-json --force
run generate-shop-tsv "${shop[@]}" --format tsv --out shop-tsv
run generate-shop-parquet "${shop[@]}" --format parquet --out shop-parquet
both generate-text data generate text --docs 120 --topics 3 --words 25 --length 20 --seed 2 --out text%
both generate-images data generate images --images 90 --test-images 30 --size 8 --classes 3 --seed 3 --out images%
run generate-colors data generate images --images 20 --test-images 0 --size 6 --channels 3 --classes 2 --out colors
interactions=shop/interactions.csv

mkdir data
sed '1d; s/,/::/g' $interactions >data/ratings.dat
sed '1d' $interactions >data/bare.csv
sed '1d; s/,/ /g' $interactions >data/blanks.txt
sed 's/,/\t/g; 1s/.*/user_id:token\titem_id:token\trating:float\ttimestamp:float/' $interactions >data/ratings.inter
gzip -nc $interactions >data/ratings.csv.gz
xz -c $interactions >data/ratings.csv.xz
zstd -qc $interactions >data/ratings.csv.zst
awk -F, 'NR == 1 { print "who;what;stars;when" } NR > 1 { print "u" $1 ";i" $2 ";" $3 ";" $4 }' \
    $interactions >data/other.csv
mkdir data/parts
head -n 300 $interactions >data/parts/part-0.csv
(head -n 1 $interactions && sed '1,300d' $interactions) >data/parts/part-1.csv
both describe-shop data describe --interactions $interactions
for file in ratings.dat bare.csv blanks.txt ratings.inter ratings.csv.gz ratings.csv.xz ratings.csv.zst parts; do
    run "describe-${file//./-}" data describe --interactions data/$file
done
run describe-tsv data describe --interactions shop-tsv/interactions.tsv
run describe-parquet data describe --interactions shop-parquet/interactions.parquet
run describe-columns data describe --interactions data/other.csv --columns user=who,item=what,rating=stars,time=when
run describe-places data describe --interactions data/bare.csv --columns user=0,item=1 --no-header
run describe-options data describe --interactions $interactions --min-rating 4 --text-ids
cut -d, -f2 text/documents.csv | sed 1d >data/lines.txt
mkdir data/texts
printf 'One of two files.\nIt has caf\xc3\xa9s.\n' >data/texts/a.txt
printf "Don't <br /> stop\n" >data/texts/b.txt
printf 'caf\xe9 one\nna\xefve two\n' >data/latin.txt
both describe-text data describe --text text/documents.csv
run describe-lines data describe --text data/lines.txt --min-count 1
run describe-folder data describe --text data/texts --min-count 1
run describe-latin data describe --text data/latin.txt --encoding latin-1 --min-count 1
run describe-column data describe --text text/documents.csv --column text --id-column id --min-count 20

both split data split --interactions $interactions --split leave-last-one --validation 0.1 --out parts/last%
run split-none data split --interactions $interactions --out parts/none
run split-random data split --interactions $interactions --split random:0.2 --split-seed 3 --format tsv \
    --out parts/random
run split-user data split --interactions $interactions --split per-user:12 --validation 0.2 --short-users drop \
    --format parquet --out parts/user
run split-time data split --interactions $interactions --split temporal:0.2 --validation 0.1 --out parts/time
run split-without-times data split --interactions $interactions --columns user=user,item=item --split temporal:0.2 \
    --out parts/untimed
run split-again data split --interactions $interactions --out parts/none --split random:0.5 --force

graph=(data graph --interactions $interactions)
awk -F, 'NR > 1 { print $1 "\tshelf\t" $2; print $1 "\tcolor\t" $1 % 5 }' shop/items.csv >data/triples.tsv
awk -F, 'BEGIN { print "id,tags" } NR > 1 { print $1 ",t" $1 % 3 ";t" $1 % 7 }' shop/items.csv >data/tags.csv
awk -F, 'BEGIN { print "source,target,weight" } NR > 2 { print $1 "," before "," 1 + NR % 3 } { before = $1 }' \
    shop/items.csv >data/edges.csv
both graph-labels "${graph[@]}" --labels shop/items.csv --out data/groups%.csv
run graph-users "${graph[@]}" --of user --labels shop/users.csv --out data/groups-user.tsv
run graph-relation "${graph[@]}" --labels data/triples.tsv --groups-relation color --out data/colors.csv
run graph-tags "${graph[@]}" --labels data/tags.csv --groups-column tags --groups-separator ';' --out data/tags.parquet
run graph-edges "${graph[@]}" --edges data/edges.csv --out data/graph.jsonl

# ---------------------------------------------------------------------------------------------------------------------
# Embeddings
# ---------------------------------------------------------------------------------------------------------------------

last=(--interactions $interactions --split leave-last-one --validation 0.1)
rate=(--interactions $interactions --split random:0.2 --validation 0.1)
both train-mf train mf "${rate[@]}" --dim 6 --epochs 4 --seed 1 --out runs/mf%
both train-als train als "${last[@]}" --dim 6 --epochs 3 --out runs/als%
both train-bpr train bpr "${last[@]}" --dim 8 --epochs 4 --out runs/bpr%
both train-item2vec train item2vec "${last[@]}" --dim 6 --epochs 3 --out runs/item2vec%
both train-ppmi-svd train ppmi-svd "${last[@]}" --dim 6 --out runs/ppmi-svd%
run train-pop train pop "${last[@]}"
run train-pop-json train pop "${last[@]}" --json --out runs/pop-json
both train-itemknn train itemknn "${last[@]}" --neighbors 20 --out runs/itemknn%
both train-ease train ease "${last[@]}" --weight-decay 20 --out runs/ease%
sasrec=(train sasrec "${last[@]}" --dim 8 --length 10 --batch 16 --lr 0.01 --epochs 2)
both train-sasrec "${sasrec[@]}" --blocks 1 --out runs/sasrec%
towers=(train two-tower "${last[@]}" --hidden 6 --batch 16 --epochs 2)
both train-two-tower "${towers[@]}" --dim 8 --out runs/two-tower%
text=(--text text/documents.csv --column text)
both train-doc2vec train doc2vec "${text[@]}" --dim 6 --epochs 3 --min-count 2 --out runs/doc2vec%

run graph-vectors "${graph[@]}" --vectors runs/bpr --k 3 --out data/nearest.csv
run train-quiet train pop --interactions data/ratings.dat --out runs/quiet --quiet
run train-mf-sse train mf "${rate[@]}" --dim 4 --epochs 2 --sse 0.1 --rho-item 50 --sse-graph-item data/edges.csv \
    --sse-groups-user shop/users.csv --biases off --mean off --schedule inverse --dropout 0.1 --out runs/mf-sse
run train-mf-stop train mf "${rate[@]}" --dim 4 --epochs 40 --lr 0.05 --weight-decay 0 --patience 2 --eval-every 2 \
    --out runs/mf-stop
run train-als-explicit train als "${rate[@]}" --dim 4 --epochs 2 --feedback explicit --solver cholesky --scaled-decay \
    --out runs/als-explicit
run train-als-graph train als "${rate[@]}" --dim 4 --epochs 2 --feedback explicit --graph-weight-item 0.1 \
    --graph-item data/nearest.csv --out runs/als-graph
run train-bpr-sse train bpr "${last[@]}" --dim 4 --epochs 2 --sse-item 0.05 --sse-user 0.1 --rho-item 200 \
    --sse-groups-item data/tags.csv --groups-column tags --groups-separator ';' --negatives 2 --biases \
    --schedule exponential --out runs/bpr-sse
run train-bpr-popular train bpr "${last[@]}" --dim 4 --epochs 2 --sampling popularity --sse-negatives off \
    --schedule constant --sse 0.1 --out runs/bpr-popular
threads=1 run train-bpr-hogwild train bpr "${last[@]}" --dim 4 --epochs 2 --mode hogwild --out runs/hogwild
run train-item2vec-cbow train item2vec "${last[@]}" --dim 4 --epochs 2 --cbow --vectors both --subsample 0.01 \
    --sse 0.05 \
    --out runs/cbow
run train-item2vec-sum train item2vec "${last[@]}" --dim 4 --epochs 2 --vectors sum --window 3 --negatives 2 \
    --dropout 0.1 --weight-decay 0.01 --out runs/sum
run train-ppmi-svd-shift train ppmi-svd "${last[@]}" --dim 4 --shift 2 --window 3 --exponent 1 --out runs/ppmi-shift
for loss in gbce ce sampled-softmax; do
    run train-sasrec-$loss "${sasrec[@]}" --blocks 1 --loss $loss --negatives 3 --out runs/sasrec-$loss
done
run train-sasrec-sse "${sasrec[@]}" --heads 2 --blocks 2 --sse-input 0.1 --sse-target 0.1 \
    --sse-groups-item shop/items.csv --dropout 0 --out runs/sasrec-sse
run train-two-tower-vectors "${towers[@]}" --item-vectors runs/bpr --out runs/towers-fixed
run train-two-tower-bpr "${towers[@]}" --item-vectors runs/bpr --train-vectors --loss bpr --settle 1 --settle-epochs 1 \
    --out runs/towers-moved
run train-doc2vec-words train doc2vec "${text[@]}" --dim 6 --epochs 2 --min-count 2 --words --sse 0.05 --out runs/words
run train-doc2vec-dm train doc2vec "${text[@]}" --dim 4 --epochs 2 --algorithm dm --out runs/dm
run train-doc2vec-lines train doc2vec --text data/lines.txt --dim 4 --epochs 1 --out runs/lines
run train-short train bpr --interactions $interactions --split per-user:14 --short-users drop --dim 4 --epochs 1 \
    --min-rating 2 --out runs/short

both train-seeds train item2vec "${last[@]}" --dim 8 --epochs 4 --seeds 5 --out runs/i2v%
run train-seeds-als train als "${last[@]}" --dim 4 --epochs 2 --seeds 2 --seed 7 --out runs/als-seeds
run train-from train --from runs/bpr --seed 3 --out runs/bpr-from
run train-from-method train bpr --from runs/bpr/run.json --lr 0.1 --out runs/bpr-from-method
cat >config.toml <<END
interactions = "$interactions"
split = "temporal:0.2"
min-rating = 2.0
dim = 4
epochs = 2
sse-item = 0.1
seed = 3
END
run train-config train bpr --config config.toml --epochs 1 --out runs/bpr-config
both train-init train bpr --interactions data/parts/part-0.csv --init runs/bpr --dim 8 --epochs 2 --out runs/bpr-init%
run train-init-table train item2vec "${last[@]}" --init runs/i2v/seed-0/vectors/item.parquet --dim 8 --epochs 1 \
    --out runs/i2v-init
run train-finished train mf "${rate[@]}" --dim 6 --epochs 4 --seed 1 --out runs/mf --resume
run train-force train pop --interactions data/ratings.dat --out runs/quiet --force

# The metrics outgrow the limit; the run goes on from the state of the first epochs, which a shorter run has as well.
long=(train mf "${rate[@]}" --dim 2 --epochs 80)
run resume-short train mf "${rate[@]}" --dim 2 --epochs 20 --out runs/shorter
limit=4 expect 2 resume-stopped "${long[@]}" --out runs/long
rm -rf runs/long.partial/checkpoint
cp -r runs/shorter/{checkpoint,metrics.jsonl} runs/long.partial
expect 2 resume-unasked "${long[@]}" --out runs/long
expect 2 resume-other "${long[@]}" --lr 0.5 --out runs/long --resume
run resume-long "${long[@]}" --out runs/long --resume
run resume-whole "${long[@]}" --out runs/whole
seconds=2 expect 130 interrupted train mf "${rate[@]}" --dim 2 --epochs 100000000 --out runs/endless --quiet
rm -rf runs/endless.partial
cp -r runs/i2v runs/again.partial
rm -r runs/again.partial/seed-3
expect 2 resume-fewer-seeds train item2vec "${last[@]}" --dim 8 --epochs 4 --seeds 4 --out runs/again --resume
run resume-seeds train item2vec "${last[@]}" --dim 8 --epochs 4 --seeds 5 --out runs/again --resume

tune=(tune mf "${rate[@]}" --dim 4 --epochs 3)
both tune-mf "${tune[@]}" --grid lr=0.01,0.1 --grid sse-item=0,0.05 --k 1,3 --out runs/tuned%
run tune-patience tune bpr "${last[@]}" --dim 4 --epochs 6 --patience 1 --grid lr=0.05,0.2 --out runs/tuned-bpr
run tune-sasrec tune sasrec "${last[@]}" --dim 8 --length 10 --blocks 1 --epochs 1 --grid sse-input=0,0.1 \
    --out runs/tuned-sasrec
run tune-diverged "${tune[@]}" --grid lr=1e6,0.05 --weight-decay 0 --out runs/tuned-apart
run tune-default tune ease "${last[@]}" --grid weight-decay=10,100
cp -r runs/tuned runs/tuned-again
head -n 1 runs/tuned/tune.jsonl >runs/tuned-again/tune.jsonl
printf '{"sett' >>runs/tuned-again/tune.jsonl
rm -r runs/tuned-again/best
run tune-resume "${tune[@]}" --grid lr=0.01,0.1 --grid sse-item=0,0.05 --k 1,3 --out runs/tuned-again --resume
run train-from-best train --from runs/tuned/best.json --seed 4 --out runs/best

# ---------------------------------------------------------------------------------------------------------------------
# What embeddings are worth
# ---------------------------------------------------------------------------------------------------------------------

mkdir pages recs
both evaluate-bpr evaluate --run runs/bpr --html pages/bpr%.html --out pages/bpr%.json
both evaluate-mf evaluate --run runs/mf --html pages/mf%.html
both evaluate-many evaluate ranking --run runs/bpr runs/als runs/sasrec runs/two-tower runs/ppmi-svd --k 1,3 --seed 2 \
    --baselines pop
both evaluate-seeds evaluate --run runs/i2v --baselines none --html pages/i2v%.html
both evaluate-tables evaluate ranking --users runs/bpr/vectors/user.parquet --items runs/bpr --similarity cosine \
    "${last[@]}" --baselines pop,itemknn --html pages/tables%.html
for run in als item2vec pop itemknn ease sasrec-ce towers-fixed towers-moved hogwild; do
    run evaluate-$run evaluate --run runs/$run --baselines none
done
run evaluate-mf-ranking evaluate ranking --run runs/mf --baselines none
run evaluate-ratings evaluate ratings --run runs/als-explicit --interactions data/ratings.csv.gz
run evaluate-bpr-ratings evaluate ratings --run runs/bpr
run evaluate-time evaluate --run runs/bpr-config
run evaluate-force evaluate --run runs/pop --baselines none --html pages/bpr.html --force

printf '3\n7\nnobody\n' >data/users.txt
printf 'user,item,rating,timestamp\nann,3,5,1\nann,7,4,2\nann,11,5,3\nann,999999,1,4\nbob,5,5,1\n' >data/new.csv
both recommend-bpr recommend --run runs/bpr --k 5 --out recs/bpr%.parquet
for run in mf als item2vec ppmi-svd pop itemknn ease sasrec two-tower towers-fixed; do
    run recommend-$run recommend --run runs/$run --k 3 --out recs/$run.csv
    run recommend-new-$run recommend --run runs/$run --interactions data/new.csv --k 3 --out recs/new-$run.csv
done
run recommend-some recommend --run runs/als --users data/users.txt --k 2 --out recs/some.tsv
run recommend-seen recommend --run runs/als --k 110 --keep-seen --out recs/seen.arrow
run recommend-lines recommend --run runs/ease --users data/users.txt --out recs/some.jsonl
run recommend-short recommend --run runs/short --k 2 --out recs/short.csv
run recommend-force recommend --run runs/pop --k 1 --out recs/pop.csv --force

awk -F, 'BEGIN { print "id,title" } NR > 1 { print $1 ",Item number " $1 }' shop/items.csv >data/names.csv
sed '1d; s/,/::/; s/$/::Genre|Other/' data/names.csv >data/movies.dat
both similar-bpr similar --run runs/bpr --id 3 --id 7 --k 4 --names data/names.csv
run similar-dat similar --run runs/item2vec --id 3 --k 3 --names data/movies.dat --name-column 2 --encoding latin-1
run similar-user similar --run runs/bpr --table user --id 17 --k 5
run similar-table similar --run runs/als/vectors/item.parquet --id 3
for run in mf itemknn ease sasrec two-tower; do run similar-$run similar --run runs/$run --id 3 --k 3; done
run similar-words similar --run runs/words --table word --id "$(head -n 1 data/lines.txt | cut -d' ' -f1)" --k 3

both embed-run data embed --run runs/doc2vec --text text-json/documents.csv --out data/embedded%.parquet
run embed-run-lines data embed --run runs/lines --text data/lines.txt --out data/embedded.tsv
run embed-run-csv data embed --run runs/dm "${text[@]}" --id-column id --out data/embedded.csv
cp -r "$oracles/encoder/tiny" encoder
cat >data/sentences.csv <<'END'
id,text
a,a good film
b,"a very bad plot, unheard words"
c,
d,"good good good good good good good good good good good good good good good good good good good good good good good"
END
encode=(data embed --encoder encoder --text data/sentences.csv --column text)
both embed-encoder "${encode[@]}" --out data/sentences%.parquet
run embed-short "${encode[@]}" --max-length 5 --batch 1 --memory 1 --out data/sentences-short.safetensors
cp -r encoder encoder-cls
rm encoder-cls/tokenizer.json
echo '{"pooling_mode": "cls", "embedding_dimension": 16}' >encoder-cls/1_Pooling/config.json
run embed-cls data embed --encoder encoder-cls --text data/sentences.csv --out data/sentences-cls.csv
run embed-force "${encode[@]}" --out data/sentences.parquet --force

# ---------------------------------------------------------------------------------------------------------------------
# Networks
# ---------------------------------------------------------------------------------------------------------------------

mkdir data/table data/one data/cifar data/photos data/photos/{one,two}
for part in train test; do
    awk -v from=$([[ $part == train ]] && echo 0 || echo 120) -v n=$([[ $part == train ]] && echo 120 || echo 40) '
        BEGIN { print "id,a,b,y,z,class"
            for (i = from; i < from + n; i++) {
                a = (i * 37 + i * i) % 101 / 50 - 1; b = (i * 53 + i * i) % 101 / 50 - 1; e = (i * 91) % 101 / 500
                printf "%d,%.4f,%.4f,%.4f,%.4f,%s\n", i, a, b, a - 2 * b + e, a * b, (a > b ? "up" : "down") } }
        ' >data/table/$part.csv
done
cp data/table/train.csv data/one/table.csv
# CIFAR's batches: a label, then a red, a green and a blue plane.
for part in data_batch_1 test_batch; do
    for i in {0..11}; do
        printf "\\00$((i % 3))"
        awk -v i=$i 'BEGIN { for (p = 0; p < 3072; p++) printf "%c", 32 + (p * (i % 3 + 1) + i) % 90 }'
    done >data/cifar/$part.bin
done
printf 'plane\ncar\nbird\n' >data/cifar/batches.meta.txt
mkdir data/cifar-100 data/images-gz
for part in train test; do
    for i in {0..5}; do
        printf "\\000\\00$((i % 2))" && head -c 3072 data/cifar/data_batch_1.bin
    done >data/cifar-100/$part.bin
done
for file in images/*; do gzip -nc "$file" >data/images-gz/"${file##*/}".gz; done
for i in 1 2 3; do
    cp "$oracles/images/color.jpg" data/photos/one/$i.jpg
    cp "$oracles/images/color.jpg" data/photos/two/$i.jpg
done

net=(train net --data images --batch 30)
table=(train net --data data/table --batch 30)
both train-mlp "${net[@]}" --model mlp:16 --epochs 3 --validation 0.2 --lr 0.01 --seed 3 --out nets/mlp%
both train-cnn-small "${net[@]}" --model cnn-small --epochs 1 --flip --crop 1 --optimizer sgd --momentum 0.9 \
    --nesterov \
    --schedule cosine --warmup 2 --out nets/cnn-small%
run train-cnn "${net[@]}" --model cnn:4,max,8,max --epochs 2 --optimizer adamw --clip 1 --label-smoothing 0.1 \
    --limit 60 \
    --schedule step:1,0.5 --out nets/cnn
run train-resnet "${net[@]}" --model resnet20 --epochs 1 --limit 30 --normalize none --out nets/resnet
run train-mlp-dropout "${net[@]}" --model mlp:8,8 --epochs 3 --activation normalized-gelu --dropout 0.2 \
    --optimizer adagrad \
    --weight-decay 0.01 --mean 0.5 --std 0.25 --out nets/dropout
run train-mlp-ntk train net --data images --epochs 3 --model mlp:8 --parameterization ntk:0.1 --symmetric \
    --activation erf --optimizer gd --loss squared --out nets/ntk
run train-binary "${net[@]}" --model mlp:8 --epochs 3 --classes 0,2 --loss binary-cross-entropy --activation tanh \
    --out nets/binary
run train-linear "${net[@]}" --model mlp: --epochs 3 --activation relu --out nets/linear
both train-classes "${table[@]}" --model mlp:8 --epochs 3 --target class --ignore-columns id --out nets/classes%
both train-regression "${table[@]}" --model mlp:8,8 --target y --regression --validation 0.2 --patience 1 \
    --min-delta 0.5 \
    --epochs 20 --ignore-columns id,z,class --out nets/regression%
run train-two-targets "${table[@]}" --model mlp:8 --target y,z --regression --epochs 3 --ignore-columns id,class \
    --activation softplus --out nets/targets
run train-one-table train net --data data/one/table.csv --model mlp:4 --target class --ignore-columns id --epochs 2 \
    --out nets/one
run train-cifar train net --data data/cifar --model cnn:4,max --epochs 1 --batch 6 --out nets/cifar
run train-cifar-100 train net --data data/cifar-100 --model mlp:2 --epochs 1 --batch 6 --out nets/cifar-100
run train-photos train net --data data/photos --model mlp:4 --epochs 1 --batch 3 --out nets/photos
run train-colors train net --data colors --model cnn:4,max --epochs 1 --batch 10 --out nets/colors
both train-net-seeds "${net[@]}" --model mlp:8 --epochs 3 --seeds 2 --seed 5 --out nets/seeds%
run train-net-from train --from nets/mlp --seed 4 --out nets/from
run train-net-from-net train net --from nets/mlp/run.json --lr 0.02 --out nets/from-net
cat >net.toml <<'END'
model = "mlp:8"
data = "images"
epochs = 2
batch = 45
lr = 0.01
END
run train-net-config train net --config net.toml --seed 1 --out nets/config
run train-net-init "${net[@]}" --model mlp:16 --epochs 2 --init nets/mlp --freeze features --out nets/probe
run train-net-init-head "${net[@]}" --model mlp:16 --epochs 2 --init nets/mlp/model.safetensors --classes 0,1 \
    --out nets/head
run train-net-taken train net --data images --model mlp:16 --init nets/mlp/model.safetensors --epochs 0 --out nets/taken
run train-net-finished "${net[@]}" --model mlp:16 --epochs 3 --validation 0.2 --lr 0.01 --seed 3 --out nets/mlp --resume

# The metrics outgrow the limit, and the run goes on from its last checkpoint.
stopped=(train net --data data/table --model mlp: --target y --regression --ignore-columns id,z,class --optimizer sgd
    --lr 0.01 --epochs 120 --batch 60 --checkpoint-every 7)
limit=4 expect 2 resume-net-stopped "${stopped[@]}" --out nets/stopped
expect 2 resume-net-other "${stopped[@]}" --momentum 0.5 --out nets/stopped --resume
run resume-net "${stopped[@]}" --out nets/stopped --resume
run resume-net-whole "${stopped[@]}" --out nets/whole

both evaluate-mlp evaluate --run nets/mlp --html pages/mlp%.html --out pages/mlp%.json
both evaluate-regression evaluate --run nets/regression --html pages/regression%.html
both evaluate-nets evaluate --run nets/mlp nets/cnn-small nets/linear --html pages/nets%.html
both evaluate-net-seeds evaluate --run nets/seeds --html pages/net-seeds%.html
run evaluate-some-classes evaluate --run nets/mlp --classes 0,2
run evaluate-other-images evaluate --run nets/mlp --data images-json
run evaluate-images-gz evaluate --run nets/mlp --data data/images-gz
for run in cnn resnet dropout ntk binary classes targets taken head cifar; do
    run evaluate-net-$run evaluate --run nets/$run
done
both refit refit-head --run nets/mlp --html pages/refit%.html --out nets/refit%
run refit-ridge refit-head --run nets/mlp --data images --method ridge --folds 3 --seed 1 --out nets/refit-ridge
run refit-regression refit-head --run nets/regression --html pages/refit-regression.html --out nets/refit-regression
run refit-default refit-head --run nets/cnn
run evaluate-refit evaluate --run nets/mlp nets/refit

paste -d, text/documents.csv <(cut -d, -f2 text/topics.csv) |
    awk -F, 'NR == 1 { print "id,text,label,part" } NR > 1 { print $0 "," (NR % 5 ? "train" : "test") }' \
        >data/labeled.csv
awk -F, 'NR == 1 || $3 < 2' data/labeled.csv >data/two.csv
awk -F, 'NR == 1 { print "key,body" } NR > 1 && NR < 20 { print "n" $1 "," $2 } NR == 20 { print "odd,quux" }' \
    data/labeled.csv >data/unlabeled.csv
words=(train text --model rnn --text data/labeled.csv --split-column part --min-count 2 --max-length 12 --dim 6 --hidden 4
    --batch 20
    --lr 0.02)
both train-text "${words[@]}" --epochs 3 --out nets/text%
run train-text-gru "${words[@]}" --cell gru --dense 6 --dropout 0.1 --weight-decay 1e-4 --clip 1 --validation 0.2 \
    --patience 1 --epochs 8 --out nets/gru
run train-text-vectors train text --model rnn --text data/two.csv --column text --label-column label --id-column id \
    --test-share 0.25 \
    --split-seed 3 --vectors runs/words --hidden 4 --epochs 2 --out nets/fixed
run train-text-moved train text --model rnn --text data/two.csv --vectors runs/words/vectors/word.parquet --train-vectors \
    --hidden 4 \
    --epochs 2 --out nets/moved
both train-text-seeds "${words[@]}" --epochs 2 --seeds 2 --out nets/texts%
run train-text-from train --from nets/text --seed 9 --out nets/text-from
printf 'text = "data/labeled.csv"\nmodel = "rnn"\nhidden = 3\ndim = 4\nepochs = 1\n' >text.toml
run train-text-config train text --config text.toml --out nets/text-config
stopped=(train text --model rnn --text data/two.csv --min-count 30 --dim 1 --hidden 1 --epochs 80 --batch 40 --checkpoint-every 5)
limit=4 expect 2 resume-text-stopped "${stopped[@]}" --out nets/text-stopped
run resume-text "${stopped[@]}" --out nets/text-stopped --resume
both evaluate-text evaluate --run nets/text --html pages/text%.html --out pages/text%.json
both evaluate-text-two evaluate --run nets/fixed nets/moved
run evaluate-text-seeds evaluate --run nets/texts
sed '60,$d' data/two.csv >data/fewer.csv
run evaluate-text-data evaluate --run nets/fixed --data data/fewer.csv
both predict predict --run nets/text --text data/unlabeled.csv --column body --id-column key --out recs/predicted%.csv
run predict-two predict --run nets/fixed --text data/two.csv --out recs/predicted-two.csv
run predict-force predict --run nets/fixed --text data/labeled.csv --out recs/predicted-two.csv --force

# ---------------------------------------------------------------------------------------------------------------------
# Vector tables
# ---------------------------------------------------------------------------------------------------------------------

mkdir -p tables/{keyed/day=mon,keyed/day=tue}
items=runs/bpr/vectors/item.parquet
both vectors-head vectors head $items --rows 3
both vectors-stats vectors stats $items
run vectors-head-run vectors head runs/bpr --table user -n 2
both vectors-convert vectors convert $items tables/items%.csv
for ending in parquet arrow feather ipc safetensors npz tsv vec bin txt; do
    run vectors-to-$ending vectors convert $items tables/items.$ending
    run vectors-from-$ending vectors stats tables/items.$ending
done
run vectors-to-npy vectors convert $items tables/items.npy --drop-ids
run vectors-from-npy vectors stats tables/items.npy
run vectors-bias vectors convert runs/mf tables/kept.parquet --keep-columns bias
for type in f16 bf16; do run vectors-$type vectors convert $items tables/$type.safetensors --dtype $type; done
run vectors-f16-parquet vectors convert $items tables/f16.parquet --dtype f16 --compression zstd
run vectors-parts vectors convert $items tables/parts --rows-per-part 40
run vectors-parts-csv vectors convert tables/parts tables/parts-csv --rows-per-part 60 --format csv --chunk-rows 7
run vectors-stdout vectors convert $items -
run vectors-stdin vectors convert - tables/stdin.parquet <out/vectors-stdout.stdout
run vectors-force vectors convert $items tables/items.parquet --force
for file in "$oracles"/tables/*.npz "$oracles"/tables/gensim.*; do cp "$file" tables; done
for file in stored deflated fortran bfloat16; do run vectors-$file vectors stats tables/$file.npz; done
for ending in bin txt vec; do run vectors-gensim-$ending vectors head tables/gensim.$ending; done
printf 'id,title,a,b\n1,x,1,2\n2,"y, z",3,nan\n3,w,inf,\n4,v,0,0\n' >tables/nan.csv
printf '1;0.5;2\n2;3;4\n' | tr ';' , >tables/bare.csv
printf 'id,v\n1,"[1, 2]"\n2,"[3, 4]"\n' >tables/lists.csv
printf 'a\nb\n' >tables/ids.txt
printf 'id,title,a\n1,x,1\n' >tables/keyed/day=mon/a.csv
printf 'id,title,a\n2,y,2\n3,z,3\n' >tables/keyed/day=tue/a.csv
printf 'a 1 2\ncaf\xe9 3 4\n' >tables/latin.txt
run vectors-skip vectors convert tables/nan.csv tables/skipped.csv --keep-columns title --on-nan skip
run vectors-zero vectors convert tables/nan.csv tables/zeros.csv --keep-columns title --on-nan zero
run vectors-stats-nan vectors stats tables/lists.csv
run vectors-bare vectors convert tables/bare.csv tables/bare-out.csv --no-header --id-column 0 --text-ids
run vectors-ids vectors convert tables/bare.csv tables/ids.parquet --no-header --ids tables/ids.txt
run vectors-keyed vectors convert tables/keyed tables/keyed.csv --keep-columns day,title
run vectors-latin vectors convert tables/latin.txt tables/latin.csv --encoding latin-1
cp tables/gensim.txt tables/gensim.words
run vectors-glove vectors head tables/gensim.words --input-format glove
gzip -nc tables/items.csv >tables/items.csv.gz
run vectors-gz vectors stats tables/items.csv.gz
echo '{"weight_map": {"vectors": "items.safetensors", "ids": "items.safetensors"}}' \
    >tables/sharded.safetensors.index.json
run vectors-index vectors stats tables/sharded.safetensors.index.json
run vectors-tensor vectors stats tables/f16.safetensors --tensor vectors

# ---------------------------------------------------------------------------------------------------------------------
# Features
# ---------------------------------------------------------------------------------------------------------------------

mkdir specs phi export
both new featurize new --data $items --output-dim 32 --out specs/spec%.json
run new-dim featurize new --input-dim 8 --seed 7 --out specs/dim.json
for kernel in gaussian laplace cauchy matern-1/2 matern-3/2 matern-5/2; do
    name=${kernel//\//}
    run new-$name featurize new --data $items --kernel $kernel --out specs/$name.json
    run apply-$name featurize apply --spec specs/$name.json $items phi/$name.parquet
done
for family in iid orthogonal hadamard halton; do
    run new-$family featurize new --data $items --directions $family --output-dim 24 --out specs/$family.json
    run apply-$family featurize apply --spec specs/$family.json $items phi/$family.parquet
    run check-$family featurize check --spec specs/$family.json $items
    run export-$family featurize export --spec specs/$family.json --out export/$family.onnx
done
run new-mixture featurize new --data $items --mixture 0.5:1,1:2,4 --out specs/mixture.json
run new-gamma featurize new --input-dim 8 --gamma 0.5 --normalize none --out specs/gamma.json
run new-sklearn featurize new --data $items --length-scale sklearn-gamma-scale --normalize none --out specs/sklearn.json
run new-standardize featurize new --data $items --normalize standardize --out specs/standardize.json
run new-wide-halton featurize new --input-dim 64 --directions halton --out specs/wide.json
run new-force featurize new --input-dim 8 --length-scale 2 --out specs/dim.json --force
both describe-spec featurize describe specs/spec.json
run describe-mixture featurize describe specs/mixture.json
run describe-hadamard featurize describe specs/hadamard.json
both apply featurize apply --spec specs/spec.json $items phi/phi%.parquet
both apply-default featurize apply $items phi/default%.parquet
for name in mixture gamma sklearn standardize; do
    run apply-$name featurize apply --spec specs/$name.json $items phi/$name.csv
done
run apply-prefix featurize apply --spec specs/spec.json --output-dim 8 $items phi/prefix.npz
run apply-parts featurize apply --spec specs/spec.json --dtype f16 --rows-per-part 50 $items phi/parts
run apply-stream featurize apply --spec specs/spec.json - - <out/vectors-stdout.stdout
run apply-zero featurize apply --spec specs/spec.json runs/bpr phi/users.arrow --table user
run convert-prefix vectors convert phi/phi.parquet phi/shorter.parquet --prefix 8
both plan featurize plan --data $items --epsilon 0.2
both plan-width featurize plan --data $items --output-dim 64 --directions hadamard --confidence 0.9
both plan-theory featurize plan --input-dim 16 --epsilon 0.1
run plan-laplace featurize plan --data $items --epsilon 0.3 --kernel laplace --normalize none --seed 3 \
    --max-output-dim 512
run plan-theory-width featurize plan --input-dim 16 --output-dim 256 --mixture 0.5,2 --directions iid
both check featurize check --spec specs/spec.json $items --html pages/check%.html
run check-force featurize check --spec specs/mixture.json $items --html pages/check.html --force

# ---------------------------------------------------------------------------------------------------------------------
# Alignment
# ---------------------------------------------------------------------------------------------------------------------

# Days: two trainings, one whose ids went wrong, and one with new ids, missing ids and zeros.
mkdir days maps
for day in 0 1 2 3 4; do run day-$day vectors convert runs/i2v/seed-$day days/day-$day.parquet; done
run day-csv vectors convert days/day-1.parquet days/day-1.csv
awk -F, -v OFS=, 'NR == FNR { id[FNR] = $1; n = FNR; next } FNR > 1 { $1 = id[FNR == n ? 2 : FNR + 1] } { print }' \
    days/day-1.csv days/day-1.csv >days/broken.csv
awk -F, -v OFS=, 'FNR > 1 && FNR < 6 { next } FNR < 10 && FNR > 1 { $2 = $3 = $4 = $5 = $6 = $7 = $8 = $9 = 0 }
    { print } END { $1 = 999; print }' days/day-1.csv >days/patchy.csv
run train-narrow train item2vec "${last[@]}" --dim 4 --epochs 4 --seed 2 --out runs/narrow
awk -F, 'NR > 1 { n[$2]++ } END { for (item in n) print item "," n[item] }' $interactions | sort -n |
    sed '1i id,weight' >data/weights.csv
cut -d, -f1 data/weights.csv | sed '1d; 81,$d' >data/anchors.txt
align=(align --reference days/day-0.parquet)
both align "${align[@]}" days/day-1.parquet --out days/aligned%.parquet --map maps/map%.safetensors \
    --onnx maps/map%.onnx
both align-dates "${align[@]}" days/day-1.parquet --map maps/dated%.safetensors --reference-date 2026-02-01 \
    --date 2026-03-02
both align-narrow "${align[@]}" runs/narrow --out days/narrow%.parquet --map maps/narrow%.safetensors
run align-scale "${align[@]}" days/day-1.parquet --scale --center --map maps/scale.safetensors --out days/scale.csv
run align-ridge "${align[@]}" days/day-1.parquet --method ridge --ridge 0.1 --map maps/ridge.safetensors
run align-low-rank "${align[@]}" days/day-1.parquet --method low-rank --rank 3 --map maps/rank.safetensors \
    --onnx maps/rank.onnx
run align-anchors "${align[@]}" days/day-1.parquet --anchors data/anchors.txt --seed 2 --map maps/anchors.safetensors
run align-top "${align[@]}" days/day-1.parquet --anchor-weights data/weights.csv --anchors-top 60 \
    --map maps/top.safetensors
run align-sample "${align[@]}" days/day-1.parquet --sample 50 --onnx maps/sample.onnx
run align-patchy "${align[@]}" days/patchy.csv --out days/patchy-aligned.parquet
both align-several "${align[@]}" days/day-1.parquet days/day-2.parquet --out days/several% --map maps/several%
both align-generalized "${align[@]}" days/day-1.parquet days/day-2.parquet days/day-3.parquet --generalized \
    --out days/general% --map maps/general%
both align-apply align --apply maps/map.safetensors days/day-1.parquet --out days/applied%.parquet
run align-apply-checked align --apply maps/map.safetensors --reference days/day-0.parquet days/day-1.parquet \
    --out days/checked.safetensors --dtype f16
run align-chain align --reference days/aligned.parquet days/day-2.parquet --allow-chain --out days/chain.parquet
run align-stdout "${align[@]}" days/day-1.parquet --out -
run align-force "${align[@]}" days/day-2.parquet --out days/scale.csv --map maps/scale.safetensors --force

export=(featurize export --spec specs/spec.json)
both export-onnx "${export[@]}" --out export/phi%.onnx
both export-saved-model "${export[@]}" --to saved-model --out export/model%
both export-safetensors "${export[@]}" --output-dim 8 --out export/directions%.safetensors
both export-conformance "${export[@]}" --to conformance --out export/conformance%
both export-map "${export[@]}" --map maps/map.safetensors --out export/mapped%.onnx
run export-external "${export[@]}" --external-data --out export/external.onnx
run export-map-model "${export[@]}" --map maps/narrow.safetensors --to saved-model --out export/mapped-model
run export-map-standardize featurize export --spec specs/standardize.json --map maps/map.safetensors \
    --out export/standardize.onnx
run export-map-directions "${export[@]}" --map maps/map.safetensors --out export/mapped.safetensors
run export-force "${export[@]}" --out export/phi.onnx --output-dim 4 --force

# ---------------------------------------------------------------------------------------------------------------------
# Stability
# ---------------------------------------------------------------------------------------------------------------------

cat >consumers.toml <<'END'
[[consumer]]
name = "search"
table = "days/day-0.parquet"
queries = "days/day-2.parquet"
labels = "shop/items.csv"

[[consumer]]
name = "ads"
table = "runs/narrow"

[[consumer]]
name = "mail"
table = "days/day-1.parquet"
END
compare=(stability days/day-0.parquet days/day-1.parquet)
both stability "${compare[@]}" --html pages/stability%.html
run stability-markdown "${compare[@]}" --markdown
run stability-prometheus "${compare[@]}" --prometheus
run stability-files "${compare[@]}" --markdown=pages/stability.md --prometheus=pages/stability.prom
run stability-both "${compare[@]}" --markdown --prometheus --min-shared-ids 0.5
both stability-runs stability runs/i2v --labels shop/items.csv --spec specs/spec.json --multiples 2,4 --folds 3 \
    --names data/names.csv --html pages/runs%.html
both stability-budget stability budget runs/i2v --out budget%.toml
run stability-budget-stdout stability budget runs/i2v/seed-0 runs/i2v/seed-1 runs/i2v/seed-2 --weights data/weights.csv --seed 3
run stability-budget-force stability budget runs/i2v --k 5 --probes 50 --keep-norms --out budget-json.toml --force
both stability-limits "${compare[@]}" --budget budget.toml --min-cka 0.1 --min-nn-overlap 0.01 --max-gram-noise 5
expect 1 stability-gate "${compare[@]}" --budget budget.toml --min-cka 0.9999 --markdown
expect 1 stability-gate-json "${compare[@]}" --min-nn-overlap 0.99 --max-procrustes-residual 0 --max-zero-vectors 0 \
    --json
expect 1 stability-undecided "${compare[@]}" --min-cka 0.9999 --probes 5 --pairs 100 --kernel-ids 100 --k 2
both stability-floor "${compare[@]}" --noise-floor runs/i2v --weights data/weights.csv --names data/movies.dat \
    --label-encoding latin-1 --html pages/floor%.html
both stability-consumers "${compare[@]}" --consumers consumers.toml --html pages/consumers%.html
run stability-broken stability days/day-1.parquet days/broken.csv --html pages/broken.html
run stability-patchy stability days/day-0.parquet days/patchy.csv --keep-norms --seed 2
run stability-narrow stability runs/i2v/seed-0 runs/narrow --table item
run stability-same stability days/day-0.parquet days/day-0.parquet
expect 1 stability-metric stability runs/i2v --labels shop/items.csv --label-column cluster --drop-rare-classes \
    --min-metric 1 \
    --max-metric-sd 0.5 --multiples 2

# ---------------------------------------------------------------------------------------------------------------------
# Refresh
# ---------------------------------------------------------------------------------------------------------------------

loose=(--min-cka 0.1 --min-nn-overlap 0.05 --min-shared-ids 0.9)
refresh=(refresh --reference days/day-0.parquet)
both refresh "${refresh[@]}" --new days/day-1.parquet --spec specs/spec.json "${loose[@]}" --consumers consumers.toml \
    --names data/names.csv --weights data/weights.csv --noise-floor runs/i2v --reference-date 2026-02-01 \
    --date 2026-02-08 --out published%
run refresh-verdict "${refresh[@]}" --new days/day-0.parquet --out published-same
run refresh-force "${refresh[@]}" --new days/day-1.parquet "${loose[@]}" --out published-json --force
expect 1 refresh-rejected "${refresh[@]}" --new days/broken.csv --budget budget.toml --out rejected
expect 1 refresh-rejected-json "${refresh[@]}" --new days/broken.csv --out rejected-json --json
expect 1 refresh-beside "${refresh[@]}" --new days/broken.csv --min-cka 0.9 --out published --force
limit=8 expect 2 refresh-stopped "${refresh[@]}" --new days/day-1.parquet "${loose[@]}" --spec specs/spec.json \
    --out resumed
expect 2 refresh-unasked "${refresh[@]}" --new days/day-1.parquet "${loose[@]}" --spec specs/spec.json --out resumed
expect 2 refresh-other "${refresh[@]}" --new days/day-2.parquet "${loose[@]}" --spec specs/spec.json --out resumed \
    --resume
run refresh-resume "${refresh[@]}" --new days/day-1.parquet "${loose[@]}" --spec specs/spec.json --out resumed --resume

# ---------------------------------------------------------------------------------------------------------------------
# Jobs on tables that stop after a row group and go on
# ---------------------------------------------------------------------------------------------------------------------

mkdir big
awk 'BEGIN { print "id,a,b"; for (i = 0; i < 70000; i++) print i "," i * 7 % 1013 / 8 "," i * 13 % 997 / 8 - 30 }' \
    >big/t.csv
run big-convert vectors convert big/t.csv big/t.parquet
run big-spec featurize new --input-dim 2 --output-dim 4 --length-scale 50 --normalize none --out big/spec.json
limit=1200 expect 2 big-convert-stopped vectors convert big/t.parquet big/u.parquet
expect 2 big-convert-other vectors convert big/t.parquet big/u.parquet --dtype f16 --resume
run big-convert-resume vectors convert big/t.parquet big/u.parquet --resume
limit=1750 expect 2 big-apply-stopped featurize apply --spec big/spec.json big/t.parquet big/phi.parquet
expect 2 big-apply-unasked featurize apply --spec big/spec.json big/t.parquet big/phi.parquet
run big-apply-resume featurize apply --spec big/spec.json big/t.parquet big/phi.parquet --resume
limit=1200 expect 2 big-align-stopped align --reference big/t.csv big/t.parquet --out big/aligned.parquet --sample 1000
run big-align-resume align --reference big/t.csv big/t.parquet --out big/aligned.parquet --sample 1000 --resume
rm big/t.csv big/t.parquet

# ---------------------------------------------------------------------------------------------------------------------
# Experiments and the demo
# ---------------------------------------------------------------------------------------------------------------------

both reproduce-list reproduce list
for id in $(grep -E '^[0-9]' out/reproduce-list.stdout); do run "reproduce-show-$id" reproduce show "$id"; done
run reproduce-show-json reproduce show 000-kernel-error --json
for id in 000-kernel-error 000-families 000-table1{,-spread,-fair,-task2} 000-tableA1 000-figure{1,A3,A4} \
    000-sse-warm-start 004-refit 004-refit-mnist; do
    run "reproduce-$id" reproduce run $id --quick --out "pages/$id.json" --html "pages/$id.html"
done
run reproduce-json reproduce run 000-kernel-error --quick --json
for i in 1 2; do run reproduce-keep-$i reproduce run 000-table1-task2 --quick --keep keep; done
rm -r keep

# What stands for MovieLens: users with many ratings and users with few.
mkdir -p movielens/{ml-1m,ml-1m-sse,movie-kg-ml1m}
run generate-warm data generate shop --users 240 --items 150 --clusters 5 --per-user 80 --seed 5 --out warm
run generate-cold data generate shop --users 240 --items 150 --clusters 5 --per-user 20 --seed 6 --out cold
(sed 1d warm/interactions.csv && sed 1d cold/interactions.csv | sed 's/^/1000/') >ratings.csv
sed 's/,/::/g' ratings.csv | xz >movielens/ml-1m/ratings.dat.xz
cut -d, -f1 ratings.csv | sort -nu | awk '{ print $1 "::F::" $1 % 5 }' | gzip -n >movielens/ml-1m/users.dat.gz
awk -F, 'NR > 1 { print $1 "::Title::G" $2 "|H" $1 % 4 }' warm/items.csv | gzip -n >movielens/ml-1m/movies.dat.gz
awk -F, 'NR > 1 { print $1 "\tactor\ta" $1 % 20 }' warm/items.csv | xz >movielens/movie-kg-ml1m/triples.tsv.xz
for part in train test; do
    awk -F, -v OFS=, -v part=$part 'NR > 1 && (NR % 5 == 0) == (part == "test") { print $1, $2, $3 }' \
        warm/interactions.csv | xz >movielens/ml-1m-sse/mf_${part}_ratings.csv.xz
done
for id in 001-table{1,2,3,4} 001-figure{3,4,5} 001-sweep-{mf,bpr}; do
    run "reproduce-$id" reproduce run $id --quick --data movielens --out "pages/$id.json" --html "pages/$id.html"
done
both demo demo --out demo%

# ---------------------------------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------------------------------

mkdir bad
cp tables/items.csv bad/precious.csv
mkdir bad/unfinished.parquet.partial
echo x >bad/unfinished.parquet.partial/data
head -c 700 tables/items.parquet >bad/cut.parquet
head -c 700 tables/items.arrow >bad/cut.arrow
head -c 500 tables/items.npz >bad/cut.npz
head -c 500 tables/items.npy >bad/cut.npy
head -c 500 tables/items.safetensors >bad/cut.safetensors
head -c 300 tables/items.csv.gz >bad/cut.csv.gz
head -c 100 maps/map.safetensors >bad/map.safetensors
head -c 100 runs/bpr/model.safetensors >bad/weights.safetensors
for ending in parquet arrow npy npz safetensors csv txt bin; do : >bad/empty.$ending; done
printf 'id,a,b\n1,1,2\n2,3\n' >bad/ragged.csv
printf 'id,a,b\n1,1,nan\n2,3,4\n' >bad/nan.csv
printf 'id,a\n1,1\nx,2\n' >bad/mixed.csv
printf 'id;a;b\n1;2;3\n' >bad/separator.csv
printf '1,0.5,2\n2,3,4\n' >bad/bare.csv
printf 'id,title,a\n1,hello,2\n' >bad/title.csv
printf 'id,a,b\n1,1,1\n2,1,1\n3,1,1\n' >bad/same.csv
head -n 6 days/day-1.csv >bad/few.csv
printf 'id,a\nx,1\n\xff\xfe,2\n' >bad/bytes.csv
printf 'user,item,rating,timestamp\n1,10,3,100\n1,11,great,101\n' >bad/rating.csv
printf 'user,item,rating,timestamp\n1,10,3,100\n1,11,4,noon\n' >bad/time.csv
printf 'user,item,rating,timestamp\n' >bad/header.csv
printf 'who,what\n1,2\n' >bad/columns.csv
printf 'source,target\n100001,100002\n' >bad/edges.csv
printf 'a,b,y\n1,2,0\n1,NaN,1\n3,4,1\n' >bad/targets.csv
printf 'dim = 4\nepochz = 2\n' >bad/config.toml
printf 'dim = "four"\n' >bad/type.toml
printf 'dim 4\n' >bad/syntax.toml
printf 'min-overlap = 0.5\n' >bad/budget.toml
printf 'min-cka = "high"\n' >bad/high.toml
: >bad/empty.toml
printf '[[consumer]]\nname = "x"\nplace = "y"\n' >bad/consumers.toml
printf '[[consumer]]\nname = "x"\ntable = "nowhere.parquet"\n' >bad/nowhere.toml
sed 's/"seed": 0/"seed": 1/' specs/spec.json >bad/spec.json
echo '{"format": 1' >bad/half.json
cp -r runs/pop bad/run
echo '{}' >bad/run/run.json

# The command line
bad no-verb
bad verb frobnicate
bad flag vectors stats $items --frobnicate
bad value vectors stats $items --on-nan ignore
threads= bad threads-zero --threads 0 vectors stats $items
threads= bad threads-many --threads 9999 vectors stats $items
bad man man frobnicate
bad shell completions csh
bad resume-force vectors convert $items x.csv --resume --force

# Tables
bad table-missing vectors stats nowhere.parquet
for ending in parquet arrow npy npz safetensors csv txt bin; do
    bad table-empty-$ending vectors stats bad/empty.$ending
done
for ending in parquet arrow npy npz safetensors csv.gz; do
    bad table-cut-$ending vectors head bad/cut.$ending -n 1000
done
bad table-ragged vectors convert bad/ragged.csv x.parquet
bad table-nan vectors convert bad/nan.csv x.parquet
bad table-mixed vectors convert bad/mixed.csv x.parquet
bad table-separator vectors convert bad/separator.csv x.parquet
bad table-bare vectors convert bad/bare.csv x.parquet
bad table-title vectors convert bad/title.csv x.parquet
bad table-bytes vectors convert bad/bytes.csv x.parquet
bad table-encoding vectors convert bad/bytes.csv x.parquet --encoding latin-99
bad table-fortran vectors stats tables/fortran-deflated.npz
bad table-pickle vectors stats tables/objects.npz
bad table-column vectors convert $items x.csv --id-column nope
bad table-kept vectors convert $items x.npz --keep-columns id
bad table-run vectors stats runs/pop
bad table-name vectors stats runs/bpr --table word
bad table-ensemble vectors stats runs/i2v
bad table-net vectors stats nets/mlp
bad table-store vectors convert http://host/x.csv x.parquet
bad convert-there vectors convert $items bad/precious.csv
bad convert-unfinished vectors convert $items bad/unfinished.parquet
bad convert-same vectors convert tables/items.csv tables/items.csv --force
bad convert-ending vectors convert $items x.xyz
bad convert-folder vectors convert $items no/x.csv
bad convert-npy vectors convert $items x.npy
bad convert-bf16 vectors convert $items x.parquet --dtype bf16
bad convert-gz vectors convert $items x.csv.gz
bad convert-zstd vectors convert $items x.csv --compression zstd
bad convert-prefix vectors convert $items x.csv --prefix 7
bad convert-parts vectors convert $items x --rows-per-part 0
bad convert-stream vectors convert $items - --resume

# Data
bad data-missing data describe --interactions nowhere.csv
bad data-both data describe --interactions $interactions --text text/documents.csv
bad data-empty data describe --interactions bad/empty.csv
bad data-header data describe --interactions bad/header.csv
bad data-rating data describe --interactions bad/rating.csv
bad data-time data describe --interactions bad/time.csv
bad data-columns data describe --interactions bad/columns.csv
bad data-columns-name data describe --interactions $interactions --columns user=uid
bad data-columns-form data describe --interactions $interactions --columns uid
bad data-column data describe --text text/documents.csv --column body
bad split-rule data split --interactions $interactions --split half --out x
bad split-share data split --interactions $interactions --split random:1.5 --out x
bad split-short data split --interactions $interactions --split per-user:16 --out x
bad split-there data split --interactions $interactions --out parts/none
bad generate-there data generate shop --out shop
bad generate-classes data generate images --classes 1 --out x
bad generate-items data generate shop --items 3 --clusters 8 --out x
bad graph-source data graph --interactions $interactions --out x.csv
bad graph-edges "${graph[@]}" --edges bad/edges.csv --out x.csv
bad graph-ending "${graph[@]}" --labels shop/items.csv --out x.xyz
bad graph-there "${graph[@]}" --labels shop/items.csv --out data/groups.csv
bad embed-by data embed --text data/lines.txt --out x.parquet
bad embed-method data embed --run runs/bpr --text data/lines.txt --out x.parquet
bad embed-encoder data embed --encoder nowhere --text data/lines.txt --out x.parquet
bad embed-folder data embed --encoder bad --text data/lines.txt --out x.parquet
bad embed-length "${encode[@]}" --max-length 2 --out x.parquet
bad embed-batch "${encode[@]}" --batch 0 --out x.parquet
bad embed-there "${encode[@]}" --out data/sentences.parquet

# Trainings
some=(--interactions $interactions --out x)
bad train-nothing train
bad train-method train --out x
bad train-data train bpr --out x
bad train-text train bpr "${some[@]}" --text data/lines.txt
bad train-documents train doc2vec --out x
bad train-split train doc2vec "${text[@]}" --split random:0.1 --out x
bad train-dim train bpr "${some[@]}" --dim 0
bad train-dim-text train bpr "${some[@]}" --dim many
bad train-epochs train mf "${some[@]}" --epochs 0
bad train-lr train mf "${some[@]}" --lr nan
bad train-diverged train mf "${some[@]}" --dim 8 --lr 1e6 --epochs 20 --weight-decay 0
bad train-sse train bpr "${some[@]}" --sse-item 1.5
bad train-graph train bpr "${some[@]}" --sse-item 0.1 --sse-graph-item bad/edges.csv
bad train-graphs train bpr "${some[@]}" --sse-graph-item data/edges.csv --sse-groups-item shop/items.csv
bad train-words train bpr "${some[@]}" --sse-graph-word data/edges.csv
bad train-cg train als "${some[@]}" --cg-steps 0
bad train-feedback train als "${some[@]}" --feedback mixed
bad train-window train item2vec "${some[@]}" --window 0
bad train-negatives train bpr "${some[@]}" --negatives 200
bad train-neighbors train itemknn "${some[@]}" --neighbors 0
bad train-decay train ease "${some[@]}" --weight-decay -1
bad train-pop train pop "${some[@]}" --dim 4
bad train-svd train ppmi-svd "${some[@]}" --dim 100000
bad train-heads train sasrec "${some[@]}" --dim 8 --heads 3
bad train-loss train sasrec "${some[@]}" --loss mse
bad train-hidden train two-tower "${some[@]}" --hidden 0
bad train-vectors train two-tower "${some[@]}" --item-vectors tables/gensim.vec
bad train-vectors-other train sasrec "${some[@]}" --item-vectors runs/bpr
bad train-algorithm train doc2vec "${text[@]}" --algorithm skip --out x
bad train-min-count train doc2vec "${text[@]}" --min-count 100000 --out x
bad train-seeds train bpr "${some[@]}" --seeds 0
bad train-seed train bpr "${some[@]}" --seed 9007199254740992
bad train-patience train bpr "${some[@]}" --patience 2
bad train-validation train bpr "${some[@]}" --validation 1
bad train-there train bpr --interactions $interactions --out runs/bpr
bad train-not-a-run train bpr --interactions $interactions --out data --force
bad train-config train bpr "${some[@]}" --config bad/config.toml
bad train-config-type train bpr "${some[@]}" --config bad/type.toml
bad train-config-syntax train bpr "${some[@]}" --config bad/syntax.toml
bad train-config-missing train bpr "${some[@]}" --config nowhere.toml
bad train-from train --from nowhere --out x
bad train-from-other train bpr --from runs/mf --out x
bad train-from-net train bpr --from nets/mlp --out x
bad train-from-damaged train --from bad/run --out x
bad train-init train bpr "${some[@]}" --dim 3 --init runs/bpr
bad train-init-missing train bpr "${some[@]}" --init nowhere
bad train-mode train bpr "${some[@]}" --mode fast
bad tune-grid tune mf "${rate[@]}" --out x
bad tune-setting "${tune[@]}" --grid windw=1,2 --out x
bad tune-value "${tune[@]}" --grid lr=0.1,fast --out x
bad tune-form "${tune[@]}" --grid lr --out x
bad tune-twice "${tune[@]}" --grid lr=0.1,0.1 --out x
bad tune-seeds "${tune[@]}" --grid lr=0.1,0.2 --seeds 2 --out x
bad tune-there "${tune[@]}" --grid lr=0.1,0.2 --out runs/tuned
bad tune-not-a-tuning "${tune[@]}" --grid lr=0.1,0.2 --out data --force
bad tune-other "${tune[@]}" --grid lr=0.01,0.1 --grid sse-item=0,0.05 --seed 8 --out runs/tuned --resume
bad tune-nothing tune bpr --interactions $interactions --validation 0 --grid lr=0.1,0.2 --out x

# Networks
plain=(train net --model mlp:8 --data images --epochs 1 --out x)
bad net-model train net --data images --out x
bad net-model-name train net --model resnet19 --data images --out x
bad net-data train net --model mlp:8 --out x
bad net-data-missing train net --model mlp:8 --data nowhere --out x
bad net-target train net --model mlp:8 --data data/table --out x
bad net-target-name train net --model mlp:8 --data data/table --target price --out x
bad net-nan train net --model mlp:8 --data bad/targets.csv --target y --out x
bad net-batch "${plain[@]}" --batch 91
bad net-lr "${plain[@]}" --lr 0
bad net-momentum "${plain[@]}" --momentum 0.9
bad net-schedule "${plain[@]}" --schedule often
bad net-loss "${plain[@]}" --loss binary-cross-entropy
bad net-mean "${plain[@]}" --mean 0.5
bad net-crop "${plain[@]}" --crop 8
bad net-classes "${plain[@]}" --classes 0,7
bad net-limit "${plain[@]}" --limit 91
bad net-activation "${plain[@]}" --activation wave
bad net-validation "${plain[@]}" --validation 0.001
bad net-epochs train net --model mlp:8 --data images --epochs 0 --out x
bad net-diverged train net --model mlp:32,32 --data images --optimizer sgd --lr 1e6 --loss squared --epochs 30 --out x
bad net-freeze train net --model cnn-small --data images --freeze conv9 --out x
bad net-init "${plain[@]}" --init nets/mlp
bad net-init-cut "${plain[@]}" --init bad/weights.safetensors
bad net-init-other "${plain[@]}" --init runs/bpr
bad net-from train net --from runs/bpr --out x
bad net-config train net --config bad/config.toml --out x
bad net-there train net --model mlp:8 --data images --out nets/mlp
bad net-regression train net --model mlp:8 --data data/table --target class --regression --ignore-columns id --out x
bad net-images train net --model resnet20 --data data/table --target y --regression --ignore-columns id,class --out x
bad refit-run refit-head --run runs/bpr --out x
bad refit-folds refit-head --run nets/mlp --folds 1 --out x
bad refit-there refit-head --run nets/mlp --out nets/refit
bad refit-page refit-head --run nets/mlp --html pages/refit.html --out x
bad text-data train text --out x
bad text-column train text --text data/labeled.csv --column body --out x
bad text-label train text --text text/documents.csv --out x
bad text-split train text --text data/labeled.csv --split-column id --out x
bad text-vectors train text --model rnn --text data/labeled.csv --vectors runs/bpr --out x
bad text-cell train text --model rnn --text data/labeled.csv --cell rnn --out x
bad text-hidden train text --model rnn --text data/labeled.csv --hidden 0 --out x
bad text-count train text --model rnn --text data/labeled.csv --min-count 100000 --out x
bad text-from train text --from nets/mlp --out x
bad predict-run predict --run nets/mlp --text data/unlabeled.csv --out x.csv
bad predict-column predict --run nets/text --text data/names.csv --out x.csv
bad predict-there predict --run nets/text --text data/labeled.csv --out recs/predicted.csv

# Evaluation
bad evaluate-nothing evaluate
bad evaluate-run evaluate --run nowhere
bad evaluate-damaged evaluate --run bad/run
bad evaluate-kept evaluate --run runs/quiet
bad evaluate-split evaluate --run runs/bpr --split random:0.2
bad evaluate-splits evaluate --run runs/bpr runs/mf
bad evaluate-other evaluate --run runs/bpr --interactions shop-json/interactions.csv
bad evaluate-there evaluate --run runs/bpr --html pages/bpr.html
bad evaluate-baseline evaluate --run runs/bpr --baselines best
bad evaluate-documents evaluate --run runs/doc2vec
bad evaluate-data evaluate --run runs/bpr --data images
bad evaluate-net evaluate ranking --run nets/mlp
bad evaluate-net-other evaluate --run nets/mlp --data colors
bad evaluate-both evaluate --run nets/mlp runs/bpr
bad evaluate-widths evaluate --users runs/bpr/vectors/user.parquet --items runs/als --interactions $interactions \
    --split leave-last-one
bad evaluate-tables evaluate --users runs/bpr --items runs/bpr
bad evaluate-k evaluate --run runs/bpr --k 0
bad recommend-run recommend --run nowhere --out x.csv
bad recommend-net recommend --run nets/mlp --out x.csv
bad recommend-documents recommend --run runs/doc2vec --out x.csv
bad recommend-k recommend --run runs/bpr --k 0 --out x.csv
bad recommend-there recommend --run runs/bpr --out recs/mf.csv
bad recommend-ending recommend --run runs/bpr --out x.xyz
bad similar-id similar --run runs/bpr --id 100001
bad similar-pop similar --run runs/pop --id 3
bad similar-k similar --run runs/bpr --id 3 --k 0
bad similar-names similar --run runs/bpr --id 3 --names nowhere.csv

# Features
bad new-dim featurize new --out x.json
bad new-odd featurize new --input-dim 8 --output-dim 7 --out x.json
bad new-scale featurize new --input-dim 8 --length-scale -1 --out x.json
bad new-median featurize new --input-dim 8 --length-scale median --out x.json
bad new-kernel featurize new --input-dim 8 --kernel sinc --out x.json
bad new-mixture featurize new --input-dim 8 --mixture a:b --out x.json
bad new-hadamard featurize new --input-dim 8 --kernel laplace --directions hadamard --out x.json
bad new-same featurize new --data bad/same.csv --out x.json
bad new-there featurize new --input-dim 8 --out specs/spec.json
bad spec-edited featurize describe bad/spec.json
bad spec-half featurize describe bad/half.json
bad spec-missing featurize describe nowhere.json
bad apply-width featurize apply --spec specs/spec.json bad/same.csv x.parquet
bad apply-there featurize apply --spec specs/spec.json $items phi/phi.parquet
cp specs/dim.json bad/phi.spec.json
bad apply-spec-there featurize apply $items bad/phi.parquet
bad apply-prefix featurize apply --spec specs/spec.json --output-dim 64 $items x.parquet
bad plan-goal featurize plan --data $items
bad plan-epsilon featurize plan --data $items --epsilon 0
bad plan-confidence featurize plan --data $items --epsilon 0.1 --confidence 1
bad check-width featurize check --spec specs/spec.json bad/same.csv
bad check-there featurize check --spec specs/spec.json $items --html pages/check.html
bad export-ending featurize export --spec specs/spec.json --out x.xyz
bad export-there featurize export --spec specs/spec.json --out export/phi.onnx
bad export-map featurize export --spec specs/spec.json --map bad/map.safetensors --out x.onnx
bad export-map-conformance featurize export --spec specs/spec.json --map maps/map.safetensors --to conformance --out x
bad export-map-width featurize export --spec big/spec.json --map maps/map.safetensors --out x.onnx

# Alignment, stability, refresh
bad align-reference align days/day-1.parquet --out x.parquet
bad align-out "${align[@]}" days/day-1.parquet
bad align-there "${align[@]}" days/day-1.parquet --out days/aligned.parquet
bad align-map-there "${align[@]}" days/day-1.parquet --map maps/map.safetensors
bad align-chain align --reference days/aligned.parquet days/day-2.parquet --out x.parquet
bad align-widths "${align[@]}" runs/narrow --method procrustes --out x.parquet
bad align-rank "${align[@]}" days/day-1.parquet --method low-rank --out x.parquet
bad align-ridge "${align[@]}" days/day-1.parquet --ridge=-1 --method ridge --out x.parquet
bad align-few "${align[@]}" days/day-1.parquet --sample 10 --out x.parquet
bad align-anchors "${align[@]}" days/day-1.parquet --anchors tables/ids.txt --out x.parquet
bad align-foreign "${align[@]}" tables/gensim.vec --out x.parquet
bad align-date "${align[@]}" days/day-1.parquet --map x.safetensors --reference-date 2026-02-30 --date 2026-03-02
bad align-dates "${align[@]}" days/day-1.parquet --map x.safetensors --reference-date 2026-03-03 --date 2026-03-02
bad align-apply align --apply bad/map.safetensors days/day-1.parquet --out x.parquet
bad align-apply-width align --apply maps/map.safetensors runs/narrow --out x.parquet
bad align-apply-reference align --apply maps/map.safetensors --reference days/day-2.parquet days/day-1.parquet \
    --out x.parquet
bad align-names "${align[@]}" runs/i2v/seed-1 runs/i2v-json/seed-1 --out x
bad stability-one stability days/day-0.parquet
bad stability-missing stability days/day-0.parquet nowhere.parquet
bad stability-foreign stability days/day-0.parquet tables/gensim.vec
bad stability-few stability days/day-0.parquet bad/few.csv
bad stability-same stability bad/same.csv bad/same.csv
bad stability-nan stability days/day-0.parquet bad/nan.csv
bad stability-budget "${compare[@]}" --budget bad/budget.toml
bad stability-budget-value "${compare[@]}" --budget bad/high.toml
bad stability-budget-syntax "${compare[@]}" --budget bad/syntax.toml
bad stability-budget-empty "${compare[@]}" --budget bad/empty.toml
bad stability-budget-missing "${compare[@]}" --budget nowhere.toml
bad stability-metric "${compare[@]}" --min-metric 0.5
bad stability-metric-sd "${compare[@]}" --labels shop/items.csv --max-metric-sd 0.1
bad stability-limit "${compare[@]}" --min-cka nan
bad stability-spec "${compare[@]}" --spec big/spec.json
bad stability-labels "${compare[@]}" --labels bad/columns.csv
bad stability-class "${compare[@]}" --labels data/names.csv
bad stability-rare "${compare[@]}" --labels data/names.csv --label-column title
bad stability-weights "${compare[@]}" --weights bad/same.csv
bad stability-consumers "${compare[@]}" --consumers bad/consumers.toml
bad stability-consumers-table "${compare[@]}" --consumers bad/nowhere.toml
bad stability-floor "${compare[@]}" --noise-floor runs/bpr
bad stability-probes "${compare[@]}" --probes 1
bad stability-formats "${compare[@]}" --prometheus --json
bad budget-one stability budget runs/bpr
bad budget-pair stability budget runs/i2v/seed-0 runs/i2v/seed-1
bad budget-there stability budget runs/i2v --out budget.toml
bad refresh-there "${refresh[@]}" --new days/day-1.parquet --date 2026-02-08 --out published
bad refresh-not-a-refresh "${refresh[@]}" --new days/day-1.parquet --out data --force
bad refresh-width "${refresh[@]}" --new days/day-1.parquet --spec big/spec.json --out x
bad refresh-chain refresh --reference days/aligned.parquet --new days/day-2.parquet --out x
bad refresh-missing "${refresh[@]}" --new nowhere.parquet --out x
bad refresh-budget "${refresh[@]}" --new days/day-1.parquet --budget bad/budget.toml --out x
bad refresh-metric "${refresh[@]}" --new days/day-1.parquet --min-metric 0.5 --out x
bad reproduce-id reproduce run 999-nothing
bad reproduce-data reproduce run 001-table3 --data nowhere
bad reproduce-there reproduce run 000-kernel-error --quick --out pages/bpr.json
bad demo-there demo --out shop

# ---------------------------------------------------------------------------------------------------------------------
# Paths, times and hosts are in the logs alone; some experiments tell their CPU time.
# ---------------------------------------------------------------------------------------------------------------------

find . -name log.jsonl -delete
sed -i -E 's/[0-9.]+ CPU minutes/? CPU minutes/g' out/reproduce-*.stdout pages/0*.{json,html}
echo "$count commands, $zero with exit code 0, ${#surprises[@]} with another exit code than expected"
if ((${#surprises[@]})); then
    printf '%s\n' "${surprises[@]}"
    exit 1
fi
