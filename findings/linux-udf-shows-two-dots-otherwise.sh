#!/usr/bin/env bash
# Linux 6.1 (Debian 12), udf: a file that is made as `..x` is listed as `.#47B1.x`, and when the volume is
# mounted again, it is found under that name alone. Only `.` and `..` need such a replacement; `.x` and
# `...` stay. The volume holds the right name, which 7z 26.02 shows.
#
# In an emulated machine (tests/guest/boot.sh), with mkudffs 2.3. Seen: ".#47B1.x ... .x; ..x is not
# found". Exit status 1 when that changes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$PATH:/usr/sbin:/sbin
truncate -s 32m "$work/volume"
mkudffs --blocksize=2048 "$work/volume" >"$work/log"
cat >"$work/script" <<'END'
set -e
mkdir -p /mnt/volume
mount -t udf -o rw /dev/vdb /mnt/volume
mkdir /mnt/volume/names
cd /mnt/volume/names
touch ..x .x ...
cd /
umount /mnt/volume
mount -t udf -o ro /dev/vdb /mnt/volume
cd /mnt/volume/names
echo "listed: $(ls -A | LC_ALL=C sort | paste -s -d ' '); ..x is $([ -e ..x ] || echo not) found"
cd /
umount /mnt/volume
END
"$here/../tests/guest/boot.sh" -k udf -d "$work/volume" "$work/script" | tr -d '\r' |
    sed -n 's/^listed: //p' | tee "$work/seen"
[ "$(cat "$work/seen")" = '.#47B1.x ... .x; ..x is not found' ]
