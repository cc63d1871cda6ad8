#!/usr/bin/env bash
# Linux 6.1 (Debian 12), isofs: files that were changed after 2038-01-19 are shown with dates from 1901 on,
# although the year has a byte of its own, up to 2155: 2040 is 1903. bsdtar 3.6.2 shows the dates of the same
# image right.
#
# In an emulated machine (tests/guest/boot.sh), which has the kernel of Debian's package index and says its
# version; the image is by xorriso 1.5.4. Seen: "Debian 6.1.192-3: before 2037-06-01, after 1903-11-26, late
# 1963-11-26; bsdtar: before 2037-06-01, after 2040-01-01, late 2100-01-01". Exit status 1 when that changes,
# and with another kernel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download libarchive-tools=3.6.2-1+deb12u5 \
        libarchive13=3.6.2-1+deb12u5 xorriso=1.5.4-4 libisoburn1=1.5.4-4 libisofs6=1.5.4-1 \
        libburn4=1.5.4-1 libjte2=1.22-3
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
libraries=$(find "$work/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :)
run() { LD_LIBRARY_PATH=$libraries "$work/root/usr/bin/$1" "${@:2}"; } # PROGRAM ARGUMENT...

export TZ=UTC
mkdir "$work/tree" "$work/out"
touch -d 2037-06-01T12:00 "$work/tree/before"
touch -d 2040-01-01T12:00 "$work/tree/after"
touch -d 2100-01-01T12:00 "$work/tree/late"
run xorriso -as mkisofs -quiet -R -o "$work/image" "$work/tree" >"$work/log" 2>&1
cat >"$work/script" <<'END'
mkdir /mnt/image
mount -t iso9660 -o ro /dev/vdb /mnt/image
cd /mnt/image
echo "kernel: $(uname -v)"
echo "shown: $(stat --printf '%n %.10y\n' before after late | paste -s -d ' ')"
END
"$here/../tests/guest/boot.sh" -d "$work/image" "$work/script" | tr -d '\r' >"$work/said"
run bsdtar -xf "$work/image" -C "$work/out"
{
    sed -n 's/^kernel: .*\(Debian [^ ]*\).*/\1/p; s/^shown: //p' "$work/said"
    cd "$work/out" && stat --printf '%n %.10y\n' before after late | paste -s -d ' '
} | tee "$work/seen"
[ "$(cat "$work/seen")" = 'Debian 6.1.192-3
before 2037-06-01 after 1903-11-26 late 1963-11-26
before 2037-06-01 after 2040-01-01 late 2100-01-01' ]
