#!/usr/bin/env bash
# xorriso 1.5.4 (libisofs 1.5.4, Debian 12), -as mkisofs -J -iso-level 4: in the trees of Joliet and of
# ISO 9660:1999 the second record of each directory, that of its parent (ECMA-119 clause 6.8.2.2), leads to the
# directory itself. In the primary tree of the same image it leads to the parent. genisoimage 1.1.11 has the
# parent in all trees.
#
# Seen: "primary: sub 22, its parent 20, root 20", "Joliet: sub 26, its parent 26, root 25" and "1999: sub 30, its
# parent 30, root 29". Exit status 1 when the parents are others.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download xorriso=1.5.4-4 libisoburn1=1.5.4-4 \
        libisofs6=1.5.4-1 libburn4=1.5.4-1 libjte2=1.22-3 libmagic1=1:5.44-3
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
LD_LIBRARY_PATH=$(find "$work/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :)
export LD_LIBRARY_PATH

mkdir -p "$work/tree/sub"
echo text >"$work/tree/sub/file"
"$work/root/usr/bin/xorriso" -as mkisofs -quiet -J -iso-level 4 -o "$work/image" "$work/tree" >>"$work/log" 2>&1
python3 - "$work/image" <<'END'
import sys
image = open(sys.argv[1], "rb").read()

def number(at):
    return int.from_bytes(image[at:at + 4], "little")

def extents(directory):  # those of the records of a directory
    at, found = directory * 2048, []
    while image[at]:
        found.append(number(at + 2))
        at += image[at]
    return found

right = []
names = {(1, 1): "primary", (2, 1): "Joliet", (2, 2): "1999"}  # by type and version
for sector in 16, 17, 18:
    descriptor = image[sector * 2048:][:7]
    assert descriptor[1:6] == b"CD001"
    name = names[descriptor[0], descriptor[6]]
    root = number(sector * 2048 + 158)
    sub = extents(root)[2]
    parent = extents(sub)[1]
    right.append((parent == root) if name == "primary" else (parent == sub))
    print(f"{name}: sub {sub}, its parent {parent}, root {root}")
sys.exit(right != [True, True, True])
END
