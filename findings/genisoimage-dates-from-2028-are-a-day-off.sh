#!/usr/bin/env bash
# genisoimage 1.1.11 (Debian 12): dates of files from 2028 on get a time zone of -24 hours (-96 quarters of
# an hour; ECMA-119 9.1.5 ends at -48), without a word. Those of 2027 get the right one. Readers that
# reckon with any zone, as xorriso 1.5.4 and 7z 26.02, show such a file a day late; bsdtar 3.6.2 and isoinfo
# 1.1.11 leave such a zone alone and show the day. The years are counted from 1900, and 2028 is the first one
# that a signed byte cannot hold. xorriso writes the zone 0 in both years.
#
# Seen, with TZ=UTC, as file, zone in the record, day shown by xorriso: "2027-12-31 zone 0 shown 2027-12-31"
# and "2028-01-01 zone -96 shown 2028-01-02". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download genisoimage=9:1.1.11-3.4 libmagic1=1:5.44-3 \
        xorriso=1.5.4-4 libisoburn1=1.5.4-4 libisofs6=1.5.4-1 libburn4=1.5.4-1 libjte2=1.22-3
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
LD_LIBRARY_PATH=$(find "$work/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :)
export LD_LIBRARY_PATH
programs=$work/root/usr/bin

export TZ=UTC
mkdir "$work/tree"
for day in 2027-12-31 2028-01-01; do touch -d "${day}T12:00" "$work/tree/$day"; done
"$programs/genisoimage" -quiet -R -o "$work/image" "$work/tree" >"$work/log" 2>&1
"$programs/xorriso" -osirrox on -indev "stdio:$work/image" -extract / "$work/out" >"$work/log" 2>&1
python3 - "$work/image" "$work/out" <<'END' | tee "$work/seen"
import os, sys, time
image = open(sys.argv[1], "rb").read()
at = 2048 * int.from_bytes(image[16 * 2048 + 158:][:4], "little")  # the root directory
zones = []
while image[at]:
    zones.append(int.from_bytes(image[at + 24:at + 25], "little", signed=True))
    at += image[at]
# The first two records are of the directory and of its parent.
for name, zone in zip(sorted(os.listdir(sys.argv[2])), zones[2:]):
    shown = time.gmtime(os.stat(os.path.join(sys.argv[2], name)).st_mtime)
    print(f"{name} zone {zone} shown {time.strftime('%Y-%m-%d', shown)}")
END
[ "$(cat "$work/seen")" = '2027-12-31 zone 0 shown 2027-12-31
2028-01-01 zone -96 shown 2028-01-02' ]
