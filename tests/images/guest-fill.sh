#!/usr/bin/env bash
# Runs in the guest: fills file systems of UDF through the kernel.
#
# usage: guest-fill.sh TREE...       /dev/vdb holds TREE.tar of each; /dev/vdc is for the first, ...
set -euo pipefail
mkdir -p /mnt/trees /mnt/udf
mount -t iso9660 -o ro /dev/vdb /mnt/trees
disk=99
for tree in "$@"; do
    device=/dev/vd$(printf '%b' "\\$(printf '%03o' "$disk")")
    disk=$((disk + 1))
    mount -t udf -o rw,noatime "$device" /mnt/udf
    tar -C /mnt/udf --numeric-owner --warning=no-timestamp -xpf "/mnt/trees/$tree.tar" 2>&1 | cut -c 1-200
    umount /mnt/udf
done
