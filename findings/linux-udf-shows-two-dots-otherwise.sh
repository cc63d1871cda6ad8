#!/usr/bin/env bash
# Linux 6.1 (Debian 12), udf: a file that is made as `..x` is listed as `.#47B1.x`, and when the volume is
# mounted again, it is found under that name alone. Only `.` and `..` need such a replacement; `.x` and
# `...` stay. The volume holds the right name, which 7z 26.02 shows.
#
# In an emulated machine (tests/guest/boot.sh), which has the kernel of Debian's package index and says its
# version; the volume is by mkudffs 2.3. Seen: "Debian 6.1.192-3: .#47B1.x ... .x; ..x is not found; 7z: ...
# ..x .x". Exit status 1 when that changes, and with another kernel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download udftools=2.3-1 \
        p7zip-full=16.02+really26.02+dfsg-0+deb12u1 p7zip=16.02+really26.02+dfsg-0+deb12u1
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
truncate -s 32m "$work/volume"
"$work/root/usr/sbin/mkudffs" --blocksize=2048 "$work/volume" >"$work/log"
cat >"$work/script" <<'END'
set -e
mkdir -p /mnt/volume
mount -t udf -o rw /dev/vdb /mnt/volume
mkdir /mnt/volume/names
cd /mnt/volume/names
touch ..x .x ...
cd /
umount /mnt/volume
mount -t udf -o ro /dev/vdb /mnt/volume
cd /mnt/volume/names
echo "kernel: $(uname -v)"
echo "listed: $(ls -A | LC_ALL=C sort | paste -s -d ' '); ..x is $([ -e ..x ] || echo not) found"
cd /
umount /mnt/volume
END
"$here/../tests/guest/boot.sh" -k udf -d "$work/volume" "$work/script" | tr -d '\r' >"$work/said"
{
    sed -n 's/^kernel: .*\(Debian [^ ]*\).*/\1/p; s/^listed: //p' "$work/said"
    "$work/root/usr/lib/p7zip/7z" l -ba -slt "$work/volume" | sed -n 's,^Path = names/,,p' |
        LC_ALL=C sort | paste -s -d ' '
} | tee "$work/seen"
[ "$(cat "$work/seen")" = 'Debian 6.1.192-3
.#47B1.x ... .x; ..x is not found
... ..x .x' ]
