#!/bin/sh
# Publishes the vectors of one day, if they meet the limits.
#
#   REFERENCE   table that every day is aligned to    default: reference.parquet
#   DATE        the day, which names the version      default: today (UTC)
#   NEW         vectors of the day                    default: incoming/$DATE.parquet
#   OUT         where to publish                      default: live
#   BUDGET      limits                                default: budget.toml
#   METRICS     Prometheus text file                  default: veridical.prom
#   KEEP        number of versions to keep            default: 7
#   WEBHOOK_URL where notify.sh posts the summary     default: it prints the summary
#
# Further flags of `veridical refresh` can be passed as arguments. Exit codes are those of `veridical refresh`:
# 0 published, 1 rejected (the current version stays), 2 bad input or another job is running, 130 interrupted.
set -eu

REFERENCE=${REFERENCE:-reference.parquet}
DATE=${DATE:-$(date -u +%Y-%m-%d)}
NEW=${NEW:-incoming/$DATE.parquet}
OUT=${OUT:-live}
BUDGET=${BUDGET:-budget.toml}
METRICS=${METRICS:-veridical.prom}
KEEP=${KEEP:-7}

# The hooks find the script through the environment, so a path with blanks or quotes is safe.
NOTIFY=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/notify.sh
export NOTIFY

# A day that was interrupted is continued; --force starts it over.
case " $* " in
*" --force "* | *" --resume "*) ;;
*) if [ -d "$OUT/$DATE.partial" ]; then set -- --resume "$@"; fi ;;
esac

# `exec`: a signal from the scheduler reaches the job, which stops in a state that can be resumed.
# shellcheck disable=SC2016
exec veridical refresh --reference "$REFERENCE" --new "$NEW" --date "$DATE" --budget "$BUDGET" --out "$OUT" \
    --keep "$KEEP" --prometheus="$METRICS" \
    --on-publish 'sh "$NOTIFY"' --on-reject 'sh "$NOTIFY"' "$@"
