#!/usr/bin/env bash
# Serves a directory with one of the servers, in the foreground, on 127.0.0.1.
#
# usage: tests/strangers/servers/serve.sh NAME PROGRAM DIRECTORY PORT WORK
#
# PROGRAM is what build.sh printed, WORK a directory for what the server writes. It runs in a
# network and a mount name space of its own (unshare -n -m): some register with the port mapper.
set -euo pipefail
name=$1 program=$2 directory=$3 port=$4 work=$5
die() { echo "$name: $*" >&2; exit 1; }

case $name in
    go-nfs | nfsserve | nfs-mamont) exec "$program" "$directory" "127.0.0.1:$port" ;;
    rclone)
        export XDG_CACHE_HOME=$work XDG_CONFIG_HOME=$work
        exec "$program" serve nfs "$directory" --addr "127.0.0.1:$port" --vfs-cache-mode full
        ;;
    nfs3_server)
        exec "$program" --path "$directory" --bind-ip 127.0.0.1 --bind-port "$port" --log-level warn
        ;;
    unfs3)
        echo "$directory 127.0.0.1(rw,no_root_squash)" >"$work/exports"
        exec "$program" -d -p -t -u -l 127.0.0.1 -n "$port" -m "$port" -e "$work/exports"
        ;;
    nfs-ganesha)
        . "$(dirname "$0")/../../../scripts/ganesha.sh"
        trap end_started EXIT
        trap exit TERM
        start_ganesha "$directory" "$work" "$port"
        wait "$ganesha_process"
        ;;
    *) die 'unknown' ;;
esac
