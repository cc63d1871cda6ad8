#!/usr/bin/env bash
# Linux 6.1 (Debian 12), isofs: of a Rock Ridge name of 254 or 255 bytes only the first piece is shown, as
# the writer cut it: about 100 bytes, and without a word. Names of 253 bytes are whole. A file of which only
# the end of such a name is its own cannot be reached. bsdtar 3.6.2 shows all 255 bytes of the same image.
#
# In an emulated machine (tests/guest/boot.sh), which has the kernel of Debian's package index and says its
# version; the image is by xorriso 1.5.4. Seen: "Debian 6.1.192-3: 253 253, 254 115, 255 115 bytes; bsdtar:
# 253 253, 254 254, 255 255 bytes". Exit status 1 when that changes, and with another kernel.
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

for length in 253 254 255; do
    mkdir -p "$work/tree/$length"
    touch "$work/tree/$length/$(printf 'n%.0s' $(seq "$length"))"
done
run xorriso -as mkisofs -quiet -R -o "$work/image" "$work/tree" >"$work/log" 2>&1
cat >"$work/script" <<'END'
mkdir /mnt/image
mount -t iso9660 -o ro /dev/vdb /mnt/image
cd /mnt/image
echo "kernel: $(uname -v)"
for length in 253 254 255; do
    name=$(ls "$length")
    echo "shown: $length ${#name}"
done
END
"$here/../tests/guest/boot.sh" -d "$work/image" "$work/script" | tr -d '\r' >"$work/said"
mkdir "$work/out"
run bsdtar -xf "$work/image" -C "$work/out"
{
    sed -n 's/^kernel: .*\(Debian [^ ]*\).*/\1/p' "$work/said"
    sed -n 's/^shown: //p' "$work/said" | paste -s -d ,
    for length in 253 254 255; do
        name=$(ls "$work/out/$length")
        echo "$length ${#name}"
    done | paste -s -d ,
} | tee "$work/seen"
[ "$(cat "$work/seen")" = 'Debian 6.1.192-3
253 253,254 115,255 115
253 253,254 254,255 255' ]
