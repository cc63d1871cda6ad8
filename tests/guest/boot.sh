#!/usr/bin/env bash
# Runs a shell script as root on the distribution's Linux kernel in an emulated machine.
#
# usage: tests/guest/boot.sh [-a FILE]... [-d FILE]... [-k MODULE]... [-m MEBIBYTES] [-t SECONDS]
#                            SCRIPT [ARGUMENT...]
#
#   -a FILE   put FILE (or a directory) beside the script, in /job
#   -d FILE   a disk with the bytes of FILE, which the script may change: /dev/vdb, /dev/vdc, ...
#   -k        load this module of the kernel, too
#   -m        memory of the machine (default 1024)
#   -t        give up after this long (default 300)
#
# Standard output is what the script prints, as it prints it; the exit status is the script's,
# 124 when time ran out, 125 when the machine did not start. The loopback address of this host
# is 10.0.2.2 there, so the guest is a true kernel NFS client of servers that listen on
# 127.0.0.1 here. No root and no KVM is needed: QEMU translates every instruction, which makes
# the guest about ten times slower than the host. Only ratios of what runs there may be compared.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin

added=()
disks=()
further_modules=()
memory=1024
seconds=300
while getopts a:d:k:m:t: option; do
    case $option in
        a) added+=("$OPTARG") ;;
        d) disks+=(-drive "file=$OPTARG,format=raw,if=virtio") ;;
        k) further_modules+=("$OPTARG") ;;
        m) memory=$OPTARG ;;
        t) seconds=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || { echo "usage: ${0##*/} [OPTION...] SCRIPT [ARGUMENT...]" >&2; exit 2; }
[ "$(uname -m)" = x86_64 ] || { echo 'guest: only x86-64 hosts can run it' >&2; exit 125; }

kernel=$("$here/kernel.sh")
tools=$("$here/tools.sh")
work=$(mktemp -d)
machine=
finish() {
    [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' TERM INT HUP

# Modules in the order in which they must be loaded, uncompressed.
modules() { # DIRECTORY
    local version file name
    version=$(ls "$kernel/lib/modules")
    [ -e "$kernel/lib/modules/$version/modules.dep.bin" ] || depmod -b "$kernel" "$version"
    mkdir -p "$1"
    for name in virtio_pci virtio_blk virtio_net isofs nfsv3 loop ext4 "${further_modules[@]}"; do
        modprobe -d "$kernel" -S "$version" --show-depends "$name"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
        name=$(basename "$file" | sed -E 's/\.(zst|xz|gz)$//')
        case $file in
            *.zst) zstd -qdc "$file" >"$1/$name" ;;
            *.xz) xz -dc "$file" >"$1/$name" ;;
            *.gz) gzip -dc "$file" >"$1/$name" ;;
            *) cp "$file" "$1/$name" ;;
        esac
        echo "$name"
    done >"$1/order"
}

# The initial RAM disk: busybox, modules, the first process and the job.
ramdisk() {
    local tree=$work/tree
    mkdir -p "$tree/bin" "$tree/job"
    cp "$(command -v busybox)" "$tree/bin/busybox"
    install -m 755 "$here/init" "$tree/init"
    modules "$tree/modules"
    cp -r "$@" "${added[@]}" "$tree/job/"
    (cd "$tree" && find . | cpio -o -H newc -R 0:0 --quiet | zstd -q -1) >"$work/ramdisk"
}

quote_arguments() { # SCRIPT ARGUMENT...: a file that bash can read back
    printf 'script=%q\n' "$(basename "$1")"
    shift
    printf 'arguments=(%s)\n' "${*@Q}"
}

mkdir "$work/job"
quote_arguments "$@" >"$work/arguments"
ramdisk "$1" "$work/arguments"
timeout "$seconds" qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m "$memory" \
    -display none -no-reboot -monitor none -nodefaults \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/ramdisk" \
    -append 'console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on' \
    -chardev stdio,id=output,signal=off -serial chardev:output -serial "file:$work/status" \
    -drive "file=$tools,format=raw,if=virtio,readonly=on" "${disks[@]}" \
    -netdev user,id=network -device virtio-net-pci,netdev=network,romfile= </dev/null &
machine=$!
status=0
wait "$machine" || status=$?
machine=
[ "$status" != 124 ] || { echo "guest: not finished after $seconds s" >&2; exit 124; }
exit "$(grep -E '^[0-9]+$' "$work/status" || { echo 'guest: no exit status' >&2; echo 125; })"
