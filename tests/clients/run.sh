#!/usr/bin/env bash
# Runs the scenarios: real clients against the real program.
#
# usage: tests/clients/run.sh [NAME...]       all scenarios when none is named
#
# Builds the program first, unless PAGEWELL names one. PAGEWELL_PROFILE is the Cargo profile
# (default dev: with overflow checks). SCENARIOS is the folder of the scenarios (default: that beside
# this script), SCENARIO_KIND the folder of their logs in target. SCENARIO_JOBS scenarios run at a
# time (default: one more than there are processors, at most 4, because most wait now and then; or 1
# on one processor), those first that take long. One line per scenario, the log of those that failed,
# and a last line that counts them; the exit status is 1 when one failed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
profile=${PAGEWELL_PROFILE:-dev}
scenarios=$(realpath "${SCENARIOS:-$here/scenarios}")
kind=${SCENARIO_KIND:-clients}
# Ends what hangs. What is only slow, on a busy machine, is let be.
seconds_max=${SCENARIO_SECONDS:-1500}

if [ -z "${PAGEWELL:-}" ]; then
    cargo build -q --profile "$profile" -p pagewell
    [ "$profile" = dev ] && folder=debug || folder=$profile
    PAGEWELL=${CARGO_TARGET_DIR:-$PWD/target}/$folder/pagewell
fi
export PAGEWELL

if [ $# -gt 0 ]; then
    names=("$@")
else
    mapfile -t names < <(cd "$scenarios" && printf '%s\n' *.sh | sed 's/\.sh$//')
    # None of those that take minutes is to be the last one, alone.
    long=(mount-nfs-ganesha fuse-data guest-sqlite fuse-memory mount-nfs-gone guest-restart
        guest-directory mount-nfs-silent guest-fio guest-build mount-nfs-tier guest-tree guest-locks)
    mapfile -t rest < <(printf '%s\n' "${names[@]}" | grep -vxF "$(printf '%s\n' "${long[@]}")")
    mapfile -t long < <(printf '%s\n' "${long[@]}" | grep -xF "$(printf '%s\n' "${names[@]}")")
    names=("${long[@]}" "${rest[@]}")
fi

logs=$PWD/target/$kind
mkdir -p "$logs"
processors=$(nproc)
jobs=${SCENARIO_JOBS:-$((processors > 3 ? 4 : processors > 1 ? processors + 1 : 1))}
# Processes of scenarios, and their names and beginnings.
declare -A running=() begun=()
# Beside the build, not in /tmp: that may be a tmpfs, which knows no file handles.
scratch_of() { echo "$logs/scratch.$$.$1"; }
stop_all() {
    local process
    for process in "${!running[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
    for process in "${!running[@]}"; do rm -rf "$(scratch_of "${running[$process]}")"; done
    exit 130
}
trap stop_all INT TERM HUP
passed=0
failed=0
skipped=0

start() { # NAME
    local scenario=$scenarios/$1.sh
    SCRATCH=$(scratch_of "$1")
    mkdir "$SCRATCH"
    chmod 755 "$SCRATCH"
    SCRATCH=$SCRATCH timeout --kill-after=10 "$seconds_max" bash "$scenario" >"$logs/$1.log" 2>&1 &
    running[$!]=$1
    begun[$!]=$SECONDS
}

finish_one() {
    local process status=0 name took
    # A signal to this script is not kept waiting.
    wait -n -p process "${!running[@]}" || status=$?
    name=${running[$process]}
    took="($((SECONDS - begun[$process]))s)"
    unset "running[$process]" "begun[$process]"
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
    rm -rf "$(scratch_of "$name")"
}

for name in "${names[@]}"; do
    [ -e "$scenarios/$name.sh" ] || { echo "no scenario '$name'" >&2; exit 2; }
done
for name in "${names[@]}"; do
    [ ${#running[@]} -lt "$jobs" ] || finish_one
    start "$name"
done
while [ ${#running[@]} -gt 0 ]; do finish_one; done

summary="$passed passed, $failed failed"
[ "$skipped" = 0 ] || summary="$summary, $skipped skipped"
echo "client scenarios: $summary"
[ "$failed" = 0 ]
