#!/usr/bin/env bash
# bsdtar 3.6.2 (libarchive, Debian 12), --format iso9660 --options iso9660:zisofs: a file that cannot be
# compressed is damaged where it is longer than about 64 KiB, and said to be written. Of 70,000 random
# bytes bsdtar itself reads other bytes from offset 65,476 on or none, and xorriso 1.5.4 only the first
# block of 32,768. Bytes that can be compressed come back.
#
# Seen: "70000 bytes, zeros: right are 70000 with bsdtar, 70000 with xorriso", and "random: right are 65476
# with bsdtar, 32768 with xorriso". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download libarchive-tools=3.6.2-1+deb12u5 \
        libarchive13=3.6.2-1+deb12u5 xorriso=1.5.4-4 libisoburn1=1.5.4-4 libisofs6=1.5.4-1 \
        libburn4=1.5.4-1 libjte2=1.22-3
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
LD_LIBRARY_PATH=$(find "$work/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :)
export LD_LIBRARY_PATH
programs=$work/root/usr/bin

mkdir "$work/tree"
python3 - "$work/tree" <<'END'
import hashlib, sys
open(sys.argv[1] + "/zeros", "wb").write(bytes(70_000))
open(sys.argv[1] + "/random", "wb").write(hashlib.shake_128(b"x").digest(70_000))
END
for name in zeros random; do
    "$programs/bsdtar" --format iso9660 --options iso9660:zisofs -cf "$work/$name.iso" -C "$work/tree" "$name"
    mkdir "$work/bsdtar-$name"
    "$programs/bsdtar" -xf "$work/$name.iso" -C "$work/bsdtar-$name" 2>>"$work/log" || true
    "$programs/xorriso" -osirrox on -indev "stdio:$work/$name.iso" -extract / "$work/xorriso-$name" \
        >>"$work/log" 2>&1 || true
done
python3 - "$work" <<'END' | tee "$work/seen"
import os, sys
work = sys.argv[1]
for name in ("zeros", "random"):
    written = open(f"{work}/tree/{name}", "rb").read()
    right = []
    for reader in ("bsdtar", "xorriso"):
        read = open(f"{work}/{reader}-{name}/{name}", "rb").read()
        right.append(f"{len(os.path.commonprefix([read, written]))} with {reader}")
    print(f"70000 bytes, {name}: right are", ", ".join(right))
END
[ "$(cat "$work/seen")" = '70000 bytes, zeros: right are 70000 with bsdtar, 70000 with xorriso
70000 bytes, random: right are 65476 with bsdtar, 32768 with xorriso' ]
