#!/usr/bin/env bash
# genisoimage 1.1.11 (Debian 12), -R: of the target of a symbolic link it records 284 bytes, but of one of
# 299 bytes (60 components of four letters) the first 89, without a word and with exit status 0. The link
# in the image leads elsewhere. Its own isoinfo shows the target cut; xorriso 1.5.4 records all 299 bytes,
# which isoinfo shows.
#
# Seen: "genisoimage: 284 of 284, 89 of 299; xorriso: 284 of 284, 299 of 299". Exit status 1 when that
# changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download genisoimage=9:1.1.11-3.4 \
        xorriso=1.5.4-4 libisoburn1=1.5.4-4 libisofs6=1.5.4-1 libburn4=1.5.4-1 \
        libjte2=1.22-3 libmagic1=1:5.44-3
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
LD_LIBRARY_PATH=$(find "$work/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :)
export LD_LIBRARY_PATH
programs=$work/root/usr/bin

recorded() { # COMMAND...: how much of each target is in the image
    rm -rf "$work/image"
    "$@" -R -o "$work/image" "$work/tree" >"$work/log" 2>&1
    for name in short long; do
        shown=$("$programs/isoinfo" -R -l -i "$work/image" | sed -n "s/.* $name -> //p" | tr -d ' \n')
        target=$(readlink "$work/tree/$name")
        # isoinfo ends what it shows of a link with a blank.
        echo -n "${#shown} of ${#target}, "
    done | sed 's/, $//'
}

mkdir "$work/tree"
parts() { printf 'part/%.0s' $(seq "$1") | sed 's,/$,,'; }
ln -s "$(parts 57)" "$work/tree/short"
ln -s "$(parts 60)" "$work/tree/long"
seen="genisoimage: $(recorded "$programs/genisoimage" -quiet); xorriso: $(recorded "$programs/xorriso" -as mkisofs -quiet)"
echo "$seen"
[ "$seen" = 'genisoimage: 284 of 284, 89 of 299; xorriso: 284 of 284, 299 of 299' ]
