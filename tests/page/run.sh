#!/usr/bin/env bash
# The live page and a report of `pagewell bench` in a browser, and what stands beside the page for
# Prometheus and Grafana.
#
# usage: tests/page/run.sh [--pictures]      --pictures writes docs/pictures anew
#
# Starts a server of a directory and a disk image with clients that read and write, a mount of it
# where there is /dev/fuse, and looks at their pages with headless Chromium: values, errors, foreign
# requests, accessibility (axe-core), keyboard, narrow and wide, light and dark; at the report in
# docs/results, too. Then promtool checks /metrics and the alert rules, and TypeScript checks the
# dashboard against Grafana's types. npm packages of exact versions go into target/page.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
program=${PAGEWELL:-$target/debug/pagewell}
pictures=
case ${1-} in
    --pictures) pictures=docs/pictures ;;
    '') ;;
    *) echo 'usage: tests/page/run.sh [--pictures]' >&2; exit 2 ;;
esac
[ -x "$program" ] || cargo build -p pagewell
begin=$SECONDS

command -v npm >/dev/null || { echo 'page: npm is missing (on Debian: apt-get install npm)' >&2; exit 1; }

# Packages, once for each list of them.
if ! cmp -s tests/page/package.json "$target/page/package.json"; then
    rm -rf "$target/page"
    mkdir -p "$target/page"
    cp tests/page/package.json "$target/page/list"
    (cd "$target/page" && mv list package.json &&
        npm install --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel error) ||
        { rm -f "$target/page/package.json"; exit 1; }
fi

scratch=$(mktemp -d)
processes=()
# Clients first: without their server they would wait for it.
end() {
    rm -f "$scratch/go-on"
    [ -z "${load-}" ] || wait "$load" || true
    [ ! -d "$scratch/mounted" ] || fusermount3 -u "$scratch/mounted" || true
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$scratch"
}
trap end EXIT

# line NAME: waits until the log of a process has its page, and prints where that is.
page_of() {
    for _ in $(seq 600); do
        sed -n 's/^page //p' "$scratch/$1.log" | grep . && return
        sleep 0.1
    done
    echo "page: $1 did not start:" >&2
    cat "$scratch/$1.log" >&2
    return 1
}

mkdir "$scratch/data"
chmod 777 "$scratch/data"
head -c 24m /dev/urandom >"$scratch/data/film.bin"
for number in $(seq 40); do echo "note $number" >"$scratch/data/note-$number.txt"; done
truncate -s 64m "$scratch/disk.img"
"$program" serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --state-dir "$scratch/state" --cache 32m \
    "/data=$scratch/data" "/disk=image:$scratch/disk.img" /ram=ram:64m >"$scratch/ready" 2>"$scratch/serve.log" &
processes+=($!)
url=$(page_of serve)
read -r _ data disk ram <"$scratch/ready"

# Clients, until the end; little of the processor.
load() {
    local turn=0 note
    while [ -e "$scratch/go-on" ]; do
        note=note-$((turn % 40 + 1)).txt
        "$program" cat "$data::/film.bin" >/dev/null
        # The rest is not wanted.
        "$program" cat "$disk::/disk.img" | head -c $((turn % 5 * 8 + 4))m >/dev/null || true
        dd if=/dev/urandom bs=64k count=$((turn % 9 + 1)) status=none >"$scratch/piece"
        "$program" cp -f "$scratch/piece" "$ram::/piece" || true
        "$program" cp -f "$scratch/data/$note" "$data::/copy.txt" || true
        "$program" ls -l "$data" >/dev/null
        if [ -e "$scratch/mounted/$note" ]; then
            cp "$scratch/mounted/$note" "$scratch/mounted/kept-$note" || true
            head -c $((turn % 7 + 1))m "$scratch/mounted/film.bin" >/dev/null
        fi
        turn=$((turn + 1))
        sleep 0.$((turn * 7 % 10))
    done
}
touch "$scratch/go-on"
load >"$scratch/load.log" 2>&1 &
load=$!

mount_url=
if [ -w /dev/fuse ]; then
    mkdir "$scratch/mounted"
    "$program" mount --foreground --http 127.0.0.1:0 "$data" "$scratch/mounted" \
        >"$scratch/mounted.ready" 2>"$scratch/mount.log" &
    processes+=($!)
    mount_url=$(page_of mount)
    cat "$scratch/mounted/film.bin" >/dev/null
else
    echo 'SKIPPED: the page of a mount: /dev/fuse cannot be used' >&2
    [ -z "${PAGEWELL_SKIPS:-}" ] || echo 'page mount: /dev/fuse cannot be used' >>"$PAGEWELL_SKIPS"
fi

PAGEWELL_PACKAGES=$target/page node tests/page/check.mjs "$url" "$mount_url" "$pictures"
PAGEWELL_PACKAGES=$target/page node tests/page/report.mjs docs/results/bench.html

# What Prometheus would be given, and what it is to warn of.
curl -sf "${url}metrics" | promtool check metrics
promtool check rules contrib/prometheus/pagewell.rules.yml
promtool test rules contrib/prometheus/pagewell.rules.test.yml
curl -sf "${url}metrics" >"$scratch/metrics"
node tests/page/dashboard.mjs "$target/page" contrib/grafana/pagewell.json "$scratch/metrics"
echo "page: passed in $((SECONDS - begin)) s"
