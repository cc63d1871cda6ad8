#!/usr/bin/env bash
# Runs Pagewell against other people's NFS servers and clients, and compares each cell with the
# tables of docs/INTEROPERABILITY.md.
#
# usage: tests/strangers/run.sh [servers|clients] [NAME...]      both halves when none is named
set -euo pipefail
cd "$(dirname "$0")"

case ${1-} in
    servers | clients) half=$1; shift; exec "$half/run.sh" "$@" ;;
    '') ;;
    *) echo 'usage: tests/strangers/run.sh [servers|clients] [NAME...]' >&2; exit 2 ;;
esac
status=0
for half in servers clients; do
    "$half/run.sh" || status=1
done
exit "$status"
