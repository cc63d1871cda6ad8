#!/usr/bin/env bash
# rsync 3.2.7 (Debian 12), -a onto a file system that refuses chmod with EPERM: no file is copied at all,
# not even those whose mode is right as it is. The mode is set on the temporary file as it is made
# (the message names mkstemp), and the file is given up when that fails. With --inplace the same call
# copies all, and names the file whose mode could not be set. The exit status is 23 both times. --no-perms
# gets by. 3.5.0 copies no file with -a either.
#
# Run as root, with /dev/fuse: a folder under bindfs 1.14.7 with --chmod-deny, and files with the modes
# 0644 and 0600. Seen: "-a: 23, 0 files; -a --inplace: 23, 2 files; -a --no-perms: 0, 2 files". Exit
# status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
mounted=
unmount() {
    [ -n "$mounted" ] || return 0
    umount "$work/mnt" || kill "$mounted" || true
    wait "$mounted" || true
    mounted=
}
trap 'unmount; rm -rf --one-file-system "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download rsync=3.2.7-1+deb12u6 \
        bindfs=1.14.7-1 libfuse3-3=3.14.0-4 libpopt0=1.19+dfsg-1 libxxhash0=0.8.1-1
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir "$work/from" "$work/mnt"
umask 077
echo bytes >"$work/from/one"
echo bytes >"$work/from/two"
chmod 644 "$work/from/one"

libraries=$(find "$work/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :)
programs=$work/root/usr/bin
copy() { # OPTION...
    local status=0
    mkdir "$work/to"
    LD_LIBRARY_PATH=$libraries setpriv --pdeathsig TERM \
        "$programs/bindfs" -f --chmod-deny "$work/to" "$work/mnt" &
    mounted=$!
    until mountpoint -q "$work/mnt"; do kill -0 "$mounted"; sleep 0.1; done
    LD_LIBRARY_PATH=$libraries "$programs/rsync" "$@" "$work/from/" "$work/mnt/" 2>>"$work/log" || status=$?
    unmount
    echo "$*: $status, $(find "$work/to" -type f | wc -l) files" >>"$work/seen"
    rm -r "$work/to"
}
copy -a
copy -a --inplace
copy -a --no-perms
cat "$work/seen"
[ "$(cat "$work/seen")" = '-a: 23, 0 files
-a --inplace: 23, 2 files
-a --no-perms: 0, 2 files' ]
