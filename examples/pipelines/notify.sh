#!/bin/sh
# Hook of `veridical refresh`: posts the summary on stdin to $WEBHOOK_URL as {"text": ...}, the format of Slack,
# Mattermost and others. Prints the text if WEBHOOK_URL is not set.
set -eu
# Bytes pass unchanged, whatever the locale.
export LC_ALL=C

text() {
    printf '*%s*: %s, version %s\n\n' \
        "${VERIDICAL_STATUS:-refresh}" "${VERIDICAL_OUT:--}" "${VERIDICAL_VERSION:--}"
    cat
    if [ -n "${VERIDICAL_REPORT:-}" ]; then printf '\nreport: %s\n' "$VERIDICAL_REPORT"; fi
}

# Escapes stdin for a JSON string: tabs become blanks, other control characters go, line breaks become \n.
escape() {
    tr '\t' ' ' | tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' |
        awk '{ printf "%s\\n", $0 }'
}

if [ -z "${WEBHOOK_URL:-}" ]; then
    text
    exit
fi
body=$(text | escape)
printf '{"text":"%s"}' "$body" |
    curl --fail --silent --show-error --max-time 30 --output /dev/null \
        --header 'Content-Type: application/json' --data-binary @- "$WEBHOOK_URL"
