#!/usr/bin/env bash
# All that `make test` does, stage by stage, with the time each took. Stops at the first stage
# that fails; the last line is the count of the client scenarios.
set -euo pipefail
cd "$(dirname "$0")/.."

stage() { # NAME COMMAND...
    local name=$1 begin=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@" || { echo "test: $name failed after $((SECONDS - begin)) s" >&2; exit 1; }
    times+=("$(printf '%-16s %5d s' "$name" $((SECONDS - begin)))")
}

times=()
stage packages scripts/packages.sh test
stage lint make --no-print-directory lint
stage test-rust make --no-print-directory test-rust
stage docs make --no-print-directory docs
printf '\n== clients\n'
begin=$SECONDS
status=0
tests/clients/run.sh | tee target/clients.log || status=$?
times+=("$(printf '%-16s %5d s' clients $((SECONDS - begin)))")
printf '\n'
printf '%s\n' "${times[@]}"
tail -n 1 target/clients.log
exit "$status"
