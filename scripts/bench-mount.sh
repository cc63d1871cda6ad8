#!/usr/bin/env bash
# Measures mounts beside their peers: an ISO image beside fuseiso, and an NFS export of nfs-ganesha
# beside nfs-cat (libnfs). Exit status 0 when every requirement is met.
#
# usage: scripts/bench-mount.sh [--quick] [--repeat N]
#   --quick      small files, 2 rounds
#   --repeat N   rounds, one after the other for both (5)
#
# Needs root: it empties the kernel's caches before each cold run, and nfs-ganesha opens files by
# handle. Cold means a new mount and empty caches, warm the second time on the same mount. The
# server of the export keeps its files in memory: what is measured there is the client.
set -euo pipefail
cd "$(dirname "$0")/.."
script=scripts/bench-mount.sh
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C

say() { printf 'bench-mount: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
. scripts/ganesha.sh

repeat=5 files=50000 mebibytes=400
options=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        --quick) repeat=2 files=5000 mebibytes=100 ;;
        --repeat) repeat=${2:?how many?}; shift ;;
        *) say "unknown option $1"; sed -n 's/^# \(usage: .*\)/\1/p' "$script" >&2; exit 2 ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || die 'run this as root'
for program in cargo fuseiso xorriso nfs-cat ganesha.nfsd rpcbind ip; do
    command -v $program >/dev/null || die "$program is missing (scripts/packages.sh bench)"
done
[ -c /dev/fuse ] || die '/dev/fuse is missing'
if [ -z "${BENCH_MOUNT_INSIDE-}" ]; then
    cargo build --release -q -p pagewell
    BENCH_MOUNT_INSIDE=yes exec unshare -n -m "$script" "${options[@]}"
fi
prepare_network || die 'the network of its own cannot be set up'
pagewell=${CARGO_TARGET_DIR:-target}/release/pagewell

work=$(mktemp -d "${BENCH_DIRECTORY:-/var/tmp}/pagewell-mount.XXXXXX")
place=$work/mnt
mounter=
finish() {
    "$pagewell" umount --lazy "$place" 2>/dev/null || umount -l "$place" 2>/dev/null || true
    [ -z "$mounter" ] || kill "$mounter" 2>/dev/null || true
    end_started
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

say "making an image of $files small files and one of $mebibytes MiB"
mkdir -p "$place" "$work/tree" "$work/shared"
head -c "$((mebibytes << 20))" /dev/urandom >"$work/tree/big"
cp "$work/tree/big" "$work/shared/big"
head -c $((files * 2048)) /dev/urandom >"$work/bytes"
for directory in $(seq $((files / 500))); do mkdir "$work/tree/directory-$directory"; done
(
    cd "$work/tree"
    split --bytes=2048 --suffix-length=6 --numeric-suffixes "$work/bytes" file-
    number=0
    for file in file-*; do
        echo "directory-$((number % (files / 500) + 1))/"
        number=$((number + 1))
    done | paste -d ' ' <(printf '%s\n' file-*) - | xargs -n 2 mv
)
xorriso -as mkisofs -quiet -R -o "$work/image.iso" "$work/tree" >"$work/log" 2>&1 || die "$(cat "$work/log")"
rm -rf "$work/bytes" "$work/tree"
sync

empty_caches() { echo 3 >/proc/sys/vm/drop_caches; }

wait_ready() { # FILE
    local tries=0
    until grep -q '^ready ' "$1"; do
        kill -0 "$mounter" 2>/dev/null || die "the mount ended: $(cat "$work/mount.log")"
        [ $((tries += 1)) -lt 200 ] || die 'the mount was not ready'
        sleep 0.05
    done
}
mount_with() { # PROGRAM SOURCE
    if [ "$1" = pagewell ]; then
        : >"$work/ready"
        "$pagewell" mount --foreground "$2" "$place" >"$work/ready" 2>"$work/mount.log" &
        mounter=$!
        wait_ready "$work/ready"
    else
        fuseiso "$2" "$place" >"$work/mount.log" 2>&1 || die "fuseiso: $(cat "$work/mount.log")"
    fi
}
unmount_with() { # PROGRAM
    umount "$place"
    [ "$1" != pagewell ] || wait "$mounter" || die 'the mount ended badly'
    mounter=
}
# timed NAME COMMAND...: adds the seconds to the runs of NAME.
timed() {
    local name=$1 begin=$EPOCHREALTIME
    shift
    "$@" >/dev/null
    awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.4f\n", e - b }' >>"$work/runs.$name"
}
read_small() { find "$place" -name 'file-*' -type f -print0 | xargs -0 cat; }

for round in $(seq "$repeat"); do
    say "round $round of $repeat"
    for program in pagewell fuseiso; do
        for what in big small; do
            empty_caches
            mount_with "$program" "$work/image.iso"
            for phase in cold warm; do
                if [ $what = big ]; then
                    timed "iso-big-$phase.$program" cat "$place/big"
                else
                    timed "iso-small-$phase.$program" read_small
                fi
            done
            unmount_with "$program"
        done
    done
done

start_ganesha "$work/shared" "$work"
host=127.0.0.1:$ganesha_port
for round in $(seq "$repeat"); do
    timed nfs-big.nfs-cat nfs-cat \
        "nfs://127.0.0.1/shared/big?nfsport=$ganesha_port&mountport=$ganesha_mount_port&version=3"
    mount_with pagewell "nfs://$host/shared?mountport=$ganesha_mount_port"
    timed nfs-big.pagewell cat "$place/big"
    unmount_with pagewell
done

# The median of all, and the ratio of the medians.
median() { sort -n "$work/runs.$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
failed=0
printf '\n%-16s %12s %12s %8s %8s\n' case pagewell peer ratio wanted
compare() { # CASE PEER WANTED
    local ours theirs line
    ours=$(median "$1.pagewell") theirs=$(median "$1.$2")
    line=$(awk -v o="$ours" -v t="$theirs" -v w="$3" \
        'BEGIN { r = t / o; printf "%8.2f %8s %s", r, w, (r >= w ? "PASS" : "FAIL") }')
    printf '%-16s %10s s %10s s %s\n' "$1" "$ours" "$theirs" "$line ($2)"
    case $line in *FAIL) failed=1 ;; esac
}
compare iso-big-cold fuseiso 3
compare iso-big-warm fuseiso 3
compare iso-small-cold fuseiso 5
compare iso-small-warm fuseiso 5
compare nfs-big nfs-cat 2
exit "$failed"
