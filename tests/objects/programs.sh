#!/usr/bin/env bash
# Runs real programs on mounted and served buckets of other people's object stores.
#
# usage: tests/objects/programs.sh [NAME [SERVER...]]      NAME is one of programs/*.sh, or `all`
#
# On versitygw and rclone when no server is named; azurite and fake-gcs-server run data, trees
# and posix, which do not look for objects in a folder. Installs what is missing (servers.sh). One line per
# scenario and server, as tests/clients/run.sh prints, whose variables hold here too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
names=()
[ "${1:-all}" = all ] || names=("$1")
[ $# = 0 ] || shift
servers=("$@")
[ $# -gt 0 ] || servers=(versitygw rclone)

failed=0
for server in "${servers[@]}"; do
    status=0
    "$here/servers.sh" install "$server" || status=$?
    case $status in
        0) ;;
        77) echo "NOT HERE $server"; continue ;;
        *) failed=1; echo "FAILED $server: it cannot be installed"; continue ;;
    esac
    echo "== $server"
    PAGEWELL_OBJECT_SERVER=$server SCENARIOS=$here/programs SCENARIO_KIND=objects-$server \
        tests/clients/run.sh "${names[@]}" || failed=1
done
[ "$failed" = 0 ]
