#!/usr/bin/env bash
# All that `make test` does, stage by stage. Stops at the first stage that fails. The clients run
# beside the tests in Rust, which mostly wait, and are shown when those have ended. The log ends with
# a table of what ran: the time of each stage and its tests, and a line for each test that could not
# run here. Where CI is set, a test that could not run is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
logs=${CARGO_TARGET_DIR:-$PWD/target}/test-logs
rm -rf "$logs"
mkdir -p "$logs"
# Tests that cannot run here say so in this file (lab/skip).
export PAGEWELL_SKIPS=$logs/skips
: >"$PAGEWELL_SKIPS"
# What is built once and thrown away needs no help for the next build or for a debugger.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_LTO=off CARGO_PROFILE_DEV_DEBUG=none

rows=()
failed=

# stage NAME COMMAND...: its output goes into a log of its own, too.
stage() {
    local name=$1 begin=$SECONDS
    shift
    [ -z "$failed" ] || return 0
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$logs/$name" || failed=$name
    rows+=("$(printf '%-10s %7d  %s' "$name" $((SECONDS - begin)) "$(tests_of "$logs/$name")")")
}

# The scenarios with clients, while other stages run.
clients='' clients_begin=0
begin_clients() {
    [ -z "$failed" ] || return 0
    clients_begin=$SECONDS
    PAGEWELL="${CARGO_TARGET_DIR:-$PWD/target}/debug/pagewell" tests/clients/run.sh \
        >"$logs/clients" 2>&1 &
    clients=$!
}

# They end at once when another stage has failed.
end_clients() {
    [ -n "$clients" ] || return 0
    local process=$clients
    clients=''
    [ -z "$failed" ] || kill "$process" 2>/dev/null || true
    printf '\n== clients\n'
    wait "$process" || failed=${failed:-clients}
    cat "$logs/clients"
    rows+=("$(printf '%-10s %7d  %s' clients $((SECONDS - clients_begin)) "$(tests_of "$logs/clients")")")
}
trap 'failed=${failed:-interrupt}; end_clients' EXIT
trap 'exit 130' INT TERM HUP

# tests_of LOG: how many tests passed and failed, by the lines of the test runner and of the
# scenarios; nothing where a log has no such line.
tests_of() {
    awk '
        /^test result: / { seen = 1; passed += $4; failed += $6; skipped += $8 }
        /^client scenarios: / { seen = 1; passed += $3; failed += $5; skipped += $7 }
        END { if (seen) printf "%7d %7d %8d", passed, failed, skipped }
    ' "$1"
}

stage packages scripts/packages.sh test
stage lint make --no-print-directory lint
stage build make --no-print-directory build-tests
begin_clients
stage rust make --no-print-directory test-rust
stage docs make --no-print-directory docs
end_clients

sed -n 's/^skipped /clients /p' "$logs/clients" 2>/dev/null >>"$PAGEWELL_SKIPS" || true
printf '\n%-10s %7s  %7s %7s %8s\n' stage seconds passed failed ignored
printf '%s\n' "${rows[@]}"
printf '%-10s %7d\n' all "$SECONDS"
sort -u "$PAGEWELL_SKIPS" | sed 's/^/could not run here: /'
if [ -n "$failed" ]; then
    echo "test: $failed failed" >&2
    exit 1
fi
if [ -s "$PAGEWELL_SKIPS" ] && [ -n "${CI:-}" ]; then
    echo 'test: tests could not run, which CI does not let pass' >&2
    exit 1
fi
