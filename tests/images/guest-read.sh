#!/usr/bin/env bash
# Runs in the guest: mounts each image of /dev/vdb as ISO 9660 and as UDF, and prints what is in it.
#
# For each that can be mounted a line `== NAME isofs` or `== NAME udf`, then three parts in base64,
# each ended by a line `--`: stat of each entry, targets of links, checksums of files.
set -uo pipefail
# What the kernel and the tools say of an image would go to the same console.
dmesg -n 1
exec 2>/dev/null
mkdir -p /mnt/images /mnt/image
mount -t iso9660 -o ro /dev/vdb /mnt/images || exit 1

# shellcheck disable=SC2016 # %n and the like are for stat and find
manifest() {
    cd /mnt/image || return
    find . -mindepth 1 -print0 | xargs -0r stat --printf '%f %u %g %.9Y %s %i %h %t %T %n\0' | base64
    echo --
    find . -type l -printf '%P\0%l\0' | base64
    echo --
    find . -type f -print0 | xargs -0r sha256sum -z | base64
    echo --
    cd /
}

for image in /mnt/images/*; do
    name=${image##*/}
    loop=$(losetup --find --show --read-only "$image") || continue
    if mount -t iso9660 -o ro,iocharset=utf8 "$loop" /mnt/image; then
        echo "== $name isofs"
        manifest
        umount /mnt/image
    fi
    if mount -t udf -o ro "$loop" /mnt/image; then
        echo "== $name udf"
        manifest
        umount /mnt/image
    fi
    losetup --detach "$loop"
done
echo '== end'
