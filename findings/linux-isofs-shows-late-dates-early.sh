#!/usr/bin/env bash
# Linux 6.1 (Debian 12), isofs: files that were changed after 2038-01-19 are shown with dates from 1901 on,
# although the year has a byte of its own, up to 2155: 2040 is 1903. bsdtar 3.6.2, 7z 26.02 and xorriso
# 1.5.4 show the dates of the same image right.
#
# In an emulated machine (tests/guest/boot.sh), with xorriso 1.5.4. Seen: "before 2037-06-01, after
# 1903-11-26, late 1963-11-26". Exit status 1 when that changes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TZ=UTC
mkdir "$work/tree"
touch -d 2037-06-01T12:00 "$work/tree/before"
touch -d 2040-01-01T12:00 "$work/tree/after"
touch -d 2100-01-01T12:00 "$work/tree/late"
xorriso -as mkisofs -quiet -R -o "$work/image" "$work/tree" >"$work/log" 2>&1
cat >"$work/script" <<'END'
mkdir /mnt/image
mount -t iso9660 -o ro /dev/vdb /mnt/image
cd /mnt/image
echo "shown: $(stat --printf '%n %.10y\n' before after late | paste -s -d ' ')"
END
"$here/../tests/guest/boot.sh" -d "$work/image" "$work/script" | tr -d '\r' |
    sed -n 's/^shown: //p' | tee "$work/seen"
[ "$(cat "$work/seen")" = 'before 2037-06-01 after 1903-11-26 late 1963-11-26' ]
