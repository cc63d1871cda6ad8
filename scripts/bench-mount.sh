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
# server of the export keeps its files in memory: what is measured there is the client, and the
# processors that it has to share with the server. "rtt" is the same through a relay that keeps all
# bytes for half a round trip of 1 ms on each way, for both. "cat" is `pagewell cat`, without a mount.
# The last lines say what a client takes that throws away all that it is sent, without a copy: no
# client is faster. Then what processor time each side took: both together cannot be faster than
# that, divided by the number of processors.
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
for program in cargo fuseiso xorriso fio nfs-cat ganesha.nfsd rpcbind ip; do
    command -v $program >/dev/null || die "$program is missing (scripts/packages.sh bench)"
done
[ -c /dev/fuse ] || die '/dev/fuse is missing'
if [ -z "${BENCH_MOUNT_INSIDE-}" ]; then
    cargo build --release -q -p pagewell
    cargo build --release -q -p pagewell-sunrpc --example delay_relay --example bare_reader
    BENCH_MOUNT_INSIDE=yes exec unshare -n -m "$script" "${options[@]}"
fi
prepare_network || die 'the network of its own cannot be set up'
pagewell=${CARGO_TARGET_DIR:-target}/release/pagewell
delay_relay=${CARGO_TARGET_DIR:-target}/release/examples/delay_relay
bare_reader=${CARGO_TARGET_DIR:-target}/release/examples/bare_reader

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
    umount "$place" || return 1
    [ "$1" != pagewell ] || wait "$mounter" || die 'the mount ended badly'
    mounter=
}
# timed NAME COMMAND...: adds the seconds to the runs of NAME.
timed() {
    local name=$1 begin=$EPOCHREALTIME
    shift
    "$@" >/dev/null || return 1
    awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.4f\n", e - b }' >>"$work/runs.$name"
}
gives() { # BYTES COMMAND...
    local bytes=$1
    shift
    [ "$("$@" | wc -c)" = "$bytes" ] || { echo "not $bytes bytes: $*" >"$work/errors"; return 1; }
}
read_small() {
    find "$place" -name 'file-*' -type f -print0 | xargs -0 cat 2>"$work/errors"
}

# Half of the file, each page once. It is in memory of the program or of the kernel beneath; what
# the kernel has of the mounted file fio drops. Its ninth field is the time of the reads in milliseconds.
read_random() {
    local size=$((mebibytes / 2))
    head -c "${size}m" "$place/big" >/dev/null
    fio --name=random --filename="$place/big" --readonly --rw=randread --bs=4k --ioengine=psync \
        --size="${size}m" --output-format=terse --output="$work/fio" >"$work/errors" 2>&1 || return 1
    awk -F ';' -v kib=$((size * 1024)) '$6 != kib { exit 1 } { printf "%.4f\n", $9 / 1000 }' "$work/fio" >>"$work/runs.iso-random.$program"
}

# read_image PROGRAM WHAT: one mount of the image, WHAT of it read cold and warm.
read_image() {
    local program=$1 what=$2 phase
    empty_caches
    mount_with "$program" "$work/image.iso"
    for phase in cold warm; do
        case $what-$phase in
            random-cold) ;;
            random-warm) read_random ;;
            big-*) timed "iso-big-$phase.$program" cat "$place/big" ;;
            small-*) timed "iso-small-$phase.$program" read_small ;;
        esac || return 1
    done
    # What is timed goes to /dev/null: whether it is all that there is is asked after it.
    case $what in
        big) gives $((mebibytes << 20)) cat "$place/big" ;;
        small) gives $((files * 2048)) read_small ;;
    esac || return 1
    unmount_with "$program"
}

# fuseiso is known to crash now and then: what it was to read is then read from a new mount.
crashes=0
for round in $(seq "$repeat"); do
    say "round $round of $repeat"
    for program in pagewell fuseiso; do
        for what in big small random; do
            tries=0
            until read_image "$program" "$what"; do
                say "$program, $what: $(tail -n 1 "$work/errors" 2>&1)"
                [ "$program" = fuseiso ] || die 'the mount of the image cannot be read'
                crashes=$((crashes + 1))
                umount -l "$place"
                [ $((tries += 1)) -lt 5 ] || die 'fuseiso crashes each time'
            done
        done
    done
done

start_ganesha "$work/shared" "$work"
"$delay_relay" "127.0.0.1:$ganesha_port" 1 >"$work/relay" &
started+=($!)
wait_until 5 $! grep -q '^listening ' "$work/relay" || die 'the relay does not start'
far_port=$(sed -n 's/^listening //p' "$work/relay")

# spent PROCESS: processor time so far, in milliseconds.
spent() { awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000 / tick }' "/proc/$1/stat"; }
# accounted NAME PROCESS COMMAND...: adds the processor time that PROCESS spends meanwhile to NAME.
accounted() {
    local name=$1 process=$2 before
    before=$(spent "$process")
    shift 2
    "$@"
    awk -v b="$before" -v e="$(spent "$process")" 'BEGIN { print e - b }' >>"$work/runs.$name"
}
# one_round CASE PORT: how each reads the file of the export.
one_round() {
    local name=$1 port=$2 source
    source="nfs://127.0.0.1:$port/shared?mountport=$ganesha_mount_port"
    accounted "cpu-$name-cold-server.nfs-cat" "$ganesha_process" timed "$name-cold.nfs-cat" nfs-cat \
        "nfs://127.0.0.1/shared/big?nfsport=$port&mountport=$ganesha_mount_port&version=3"
    accounted "cpu-$name-cat-server.pagewell" "$ganesha_process" \
        timed "$name-cat.pagewell" "$pagewell" cat "$source::/big"
    mount_with pagewell "$source"
    accounted "cpu-$name-cold-server.pagewell" "$ganesha_process" \
        accounted "cpu-$name-cold-mount.pagewell" "$mounter" \
        timed "$name-cold.pagewell" cat "$place/big"
    timed "$name-warm.pagewell" cat "$place/big"
    unmount_with pagewell
}
gives $((mebibytes << 20)) nfs-cat \
    "nfs://127.0.0.1/shared/big?nfsport=$ganesha_port&mountport=$ganesha_mount_port&version=3" ||
    die "$(cat "$work/errors")"
gives $((mebibytes << 20)) "$pagewell" cat \
    "nfs://127.0.0.1:$ganesha_port/shared?mountport=$ganesha_mount_port::/big" ||
    die "$(cat "$work/errors")"
for round in $(seq "$repeat"); do
    say "round $round of $repeat: nfs"
    timed nfs-big.bare "$bare_reader" 127.0.0.1 "$ganesha_port" "$ganesha_mount_port" /shared big 1 4
    one_round nfs-big "$ganesha_port"
    one_round nfs-big-rtt "$far_port"
done
# nfs-cat keeps nothing: the second time it reads is like the first.
for name in nfs-big nfs-big-rtt; do
    for phase in warm cat; do cp "$work/runs.$name-cold.nfs-cat" "$work/runs.$name-$phase.nfs-cat"; done
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
compare iso-random fuseiso 3
compare iso-small-cold fuseiso 5
compare iso-small-warm fuseiso 5
for name in nfs-big nfs-big-rtt; do
    for phase in cold warm cat; do compare "$name-$phase" nfs-cat 2; done
done
[ $crashes = 0 ] || printf '\nfuseiso crashed %s times while it was read\n' "$crashes"
awk -v bare="$(median nfs-big.bare)" -v peer="$(median nfs-big-cold.nfs-cat)" 'BEGIN {
    printf "\nno client of this server is faster than %s s here: %.2f x nfs-cat\n", bare, peer / bare
}'
per_gibibyte() { # NAME
    awk -v m="$(median "$1")" -v mebibytes="$mebibytes" \
        'BEGIN { printf "%.0f ms", m * 1024 / mebibytes }'
}
printf '\nprocessor time for each GiB, %s processors:\n' "$(nproc)"
for name in nfs-big nfs-big-rtt; do
    printf '%-12s server for nfs-cat %s, for pagewell cat %s, for the mount %s; the mount itself %s\n' \
        "$name" "$(per_gibibyte "cpu-$name-cold-server.nfs-cat")" \
        "$(per_gibibyte "cpu-$name-cat-server.pagewell")" \
        "$(per_gibibyte "cpu-$name-cold-server.pagewell")" \
        "$(per_gibibyte "cpu-$name-cold-mount.pagewell")"
done
exit "$failed"
