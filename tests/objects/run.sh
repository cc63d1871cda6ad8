#!/usr/bin/env bash
# Runs the clients of pagewell-object-client against other people's object and web servers, and
# compares each cell with the tables of docs/INTEROPERABILITY.md.
#
# usage: tests/objects/run.sh [--write] [NAME...]
#
# All servers when none is named, but for seaweedfs, which takes a quarter of an hour to build. As a
# cluster it has to be what it is as one process.
# Installs what is missing (tests/objects/servers.sh). --write writes what was seen into the tables
# instead. A server that cannot be had is named and counted, and fails nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
results=$(realpath -m "${CARGO_TARGET_DIR:-target}/objects/results")
mkdir -p "$results"

server=
work=
end_server() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" || true
    [ -z "$work" ] || rm -rf "$work"
    server='' work=''
}
trap end_server EXIT

# Ends when the server answers; PAGEWELL_OBJECT_URL is its address.
start_server() { # NAME
    work=$(mktemp -d)
    # Some serve as a user of their own.
    chmod 755 "$work"
    mkdir -m 755 "$work/folder"
    : >"$work/ready"
    "$here/servers.sh" run "$1" "$work/folder" >"$work/ready" 2>"$results/$1.server" &
    server=$!
    until grep -q '^ready ' "$work/ready"; do
        kill -0 "$server" 2>/dev/null || { cat "$results/$1.server"; return 1; }
        sleep 0.1
    done
    PAGEWELL_OBJECT_URL=$(sed -n 's/^ready //p' "$work/ready")
    export PAGEWELL_OBJECT_URL PAGEWELL_OBJECT_FOLDER=$work/folder PAGEWELL_OBJECT_SERVER=$1
    export PAGEWELL_OBJECT_CELLS=$results/$1.cells
    : >"$PAGEWELL_OBJECT_CELLS"
}

# Nothing is asked for what no file and no variable gives.
export AWS_ACCESS_KEY_ID=pagewell-test AWS_SECRET_ACCESS_KEY=pagewell-test-secret
export AWS_EC2_METADATA_DISABLED=true

write=()
[ "${1-}" != --write ] || { write=(--write); shift; }
servers=("$@")
[ $# -gt 0 ] || mapfile -t servers < <("$here/servers.sh" list | grep -v '^peer' | cut -d ' ' -f 2 | grep -v seaweedfs)
cargo test -q -p pagewell-object-proxy --test matrix --no-run
passed=0 failed=0 missing=0
for name in "${servers[@]}"; do
    kind=$("$here/servers.sh" list | awk -v name="$name" '$2 == name { print $1 }')
    # Clients of all stores do the same.
    tests=$kind
    case $kind in az | gs) tests=s3 ;; esac
    status=0
    "$here/servers.sh" install "$name" || status=$?
    case $status in
        0) ;;
        77) missing=$((missing + 1)); echo "NOT HERE $name"; continue ;;
        *) failed=$((failed + 1)); echo "FAILED $name: it cannot be installed"; continue ;;
    esac
    begun=$SECONDS
    if start_server "$name" &&
        cargo test -q -p pagewell-object-proxy --test matrix -- \
            --ignored --test-threads=1 "${tests}_" >"$results/$name.log" 2>&1 &&
        python3 "$here/table.py" "${write[@]}" "$kind" "${name%-cluster}" \
            "$("$here/servers.sh" version "$name")" "$PAGEWELL_OBJECT_CELLS"; then
        passed=$((passed + 1))
        echo "ok $name ($((SECONDS - begun))s)"
    else
        failed=$((failed + 1))
        echo "FAILED $name ($((SECONDS - begun))s)"
        grep -E "panicked|FAILED|^test result|^[a-z_]+/|: '" -A 2 "$results/$name.log" 2>/dev/null |
            tail -n 40 | sed 's/^/    /' || true
    fi
    end_server
done
echo "objects: $passed passed, $failed failed, $missing skipped"
[ "$failed" = 0 ]
