#!/usr/bin/env bash
# xorriso 1.5.4 (libisofs 1.5.4, Debian 12): one symbolic link with a target of more than about 1,023 bytes
# takes the whole image with it. "Rock Ridge path too long", "Cannot read ISO image tree", and no other
# file is listed or extracted; the exit status is 32. Linux has targets up to 4,095 bytes. bsdtar 3.6.2, which
# made the image, lists both files, and the link has its target. With -error_behavior image_loading
# best_effort and -abort_on FATAL, xorriso shows the other file and leaves out the link.
#
# Seen, as length of the target and entries shown: "1000 bytes: bsdtar 2, xorriso 2, with best effort 2" and
# "1100 bytes: bsdtar 2, xorriso 0, with best effort 1". Exit status 1 when that changes.
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

list() { # OPTION...: how many entries below the root xorriso lists
    { "$programs/xorriso" "$@" -indev "stdio:$work/image" -find / -- 2>>"$work/log" || true; } |
        grep -c "^'/[^']" || true
}
for length in 1000 1100; do
    rm -rf "$work/tree" "$work/out" "$work/image"
    mkdir "$work/tree" "$work/out"
    echo bytes >"$work/tree/file"
    target=$(printf 'fifty bytes, of which the last is a slash, as here/%.0s' {1..22})
    ln -s "${target::length-1}e" "$work/tree/link"
    "$programs/bsdtar" --format iso9660 -cf "$work/image" -C "$work/tree" file link
    "$programs/bsdtar" -xf "$work/image" -C "$work/out"
    [ "$(readlink "$work/out/link")" = "$(readlink "$work/tree/link")" ]
    echo "$length bytes: bsdtar $(find "$work/out" -mindepth 1 | wc -l), xorriso $(list), with best effort" \
        "$(list -abort_on FATAL -error_behavior image_loading best_effort)"
done | tee "$work/seen"
[ "$(cat "$work/seen")" = '1000 bytes: bsdtar 2, xorriso 2, with best effort 2
1100 bytes: bsdtar 2, xorriso 0, with best effort 1' ]
