#!/usr/bin/env bash
# bsdtar 3.6.2 (libarchive, Debian 12), images with Rock Ridge: where the target of a symbolic link goes on
# in a second SL entry, the slash between the last component of the first and the first of the second is
# lost. The link is extracted without a word, and leads elsewhere: .../partpart/... for .../part/part/....
# isoinfo 1.1.11 shows the target as it is. The image is by xorriso 1.5.4; with genisoimage it is the same.
#
# Seen: "40 components: 199 of 199 bytes; 50 components: 248 of 249 bytes, partpart". Exit status 1 when
# that changes.
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

mkdir "$work/tree" "$work/out"
for count in 40 50; do
    target=$(printf 'part/%.0s' $(seq "$count"))
    ln -s "${target%/}" "$work/tree/$count"
done
"$programs/xorriso" -as mkisofs -quiet -R -o "$work/image" "$work/tree" >"$work/log" 2>&1
"$programs/bsdtar" -xf "$work/image" -C "$work/out"
for count in 40 50; do
    made=$(readlink "$work/tree/$count")
    read=$(readlink "$work/out/$count")
    echo "$count components: ${#read} of ${#made} bytes$(grep -o partpart <<<"$read" | sed 's/^/, /')"
done | tee "$work/seen"
[ "$(cat "$work/seen")" = '40 components: 199 of 199 bytes
50 components: 248 of 249 bytes, partpart' ]
