#!/usr/bin/env bash
# Runs the scenarios: real clients against the real program.
#
# usage: tests/clients/run.sh [NAME...]       all scenarios when none is named
#
# Builds the program first, unless PAGEWELL names one. PAGEWELL_PROFILE is the Cargo profile
# (default dev: with overflow checks). One line per scenario, the log of those that failed, and
# a last line that counts them; the exit status is 1 when one failed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
profile=${PAGEWELL_PROFILE:-dev}
seconds_max=${SCENARIO_SECONDS:-700}

if [ -z "${PAGEWELL:-}" ]; then
    cargo build -q --profile "$profile" -p pagewell
    [ "$profile" = dev ] && folder=debug || folder=$profile
    PAGEWELL=${CARGO_TARGET_DIR:-$PWD/target}/$folder/pagewell
fi
export PAGEWELL

if [ $# -gt 0 ]; then
    names=("$@")
else
    mapfile -t names < <(cd "$here/scenarios" && printf '%s\n' *.sh | sed 's/\.sh$//')
fi

logs=$PWD/target/clients
mkdir -p "$logs"
running=
trap '[ -z "$running" ] || kill "$running"; rm -rf "$SCRATCH"; exit 130' INT TERM HUP
passed=0
failed=0
skipped=0
for name in "${names[@]}"; do
    scenario=$here/scenarios/$name.sh
    [ -e "$scenario" ] || { echo "no scenario '$name'" >&2; exit 2; }
    # Beside the build, not in /tmp: that may be a tmpfs, which knows no file handles.
    SCRATCH=$(mktemp -d "$logs/scratch.XXXXXX")
    chmod 755 "$SCRATCH"
    export SCRATCH
    begin=$SECONDS
    status=0
    # In the background, so that a signal to this script is not kept waiting.
    timeout --kill-after=10 "$seconds_max" bash "$scenario" >"$logs/$name.log" 2>&1 &
    running=$!
    wait "$running" || status=$?
    took="($((SECONDS - begin))s)"
    case $status in
        0) echo "ok $name $took"; passed=$((passed + 1)) ;;
        77)
            echo "skipped $name: $(sed -n 's/^SKIPPED: //p' "$logs/$name.log" | head -n 1)"
            skipped=$((skipped + 1))
            ;;
        *)
            echo "FAILED $name $took, status $status"
            tail -n 60 "$logs/$name.log" | sed 's/^/    /'
            failed=$((failed + 1))
            ;;
    esac
    rm -rf "$SCRATCH"
done

summary="$passed passed, $failed failed"
[ "$skipped" = 0 ] || summary="$summary, $skipped skipped"
echo "client scenarios: $summary"
[ "$failed" = 0 ]
