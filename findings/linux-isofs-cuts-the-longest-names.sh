#!/usr/bin/env bash
# Linux 6.1 (Debian 12), isofs: of a Rock Ridge name of 254 or 255 bytes only the first piece is shown, as
# the writer cut it: about 100 bytes, and without a word. Names of 253 bytes are whole. A file of which only
# the end of such a name is its own cannot be reached. bsdtar 3.6.2 and xorriso 1.5.4 show all 255 bytes.
#
# In an emulated machine (tests/guest/boot.sh), with xorriso 1.5.4. Seen: "253 253, 254 115, 255 115 bytes".
# Exit status 1 when that changes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for length in 253 254 255; do
    mkdir -p "$work/tree/$length"
    touch "$work/tree/$length/$(printf 'n%.0s' $(seq "$length"))"
done
xorriso -as mkisofs -quiet -R -o "$work/image" "$work/tree" >"$work/log" 2>&1
cat >"$work/script" <<'END'
mkdir /mnt/image
mount -t iso9660 -o ro /dev/vdb /mnt/image
cd /mnt/image
for length in 253 254 255; do
    name=$(ls "$length")
    echo "shown: $length ${#name}"
done
END
"$here/../tests/guest/boot.sh" -d "$work/image" "$work/script" | tr -d '\r' |
    sed -n 's/^shown: //p' | paste -s -d , | tee "$work/seen"
[ "$(cat "$work/seen")" = '253 253,254 115,255 115' ]
