#!/usr/bin/env bash
# Measures listing and reading of images beside bsdtar, 7z, xorriso, fuseiso, dd and Linux. Exit status 0
# when every requirement is met.
#
# usage: scripts/bench-images.sh [--quick] [--repeat N] [--only CASE]
#   --quick      few files, 2 rounds
#   --repeat N   rounds; in each all programs in turn, the first another one each time (5)
#   --only CASE  one of those below; may be repeated
#
#   rock     50,000 files of 0.5 to 8 KB with Rock Ridge
#   udf      the same, in the UDF tree of genisoimage -udf
#   zisofs   text and half of it random, 20 KB to 400 KB a file, compressed by xorriso
#   fuse     the first through a mount, beside fuseiso: `ls -lR`, and each file read
#   big      one file of 1 GiB, cold, beside dd with O_DIRECT
#   linux    a tenth of udf, in an emulated machine, beside cp(1) and ls(1) on a mount of the kernel's udf
#
# Needs root and FUSE. Files are copied into memory ($BENCH_MEMORY, /dev/shm) and nothing is synced. Cold
# means that the kernel has nothing of the image. The ratio is the median of the rounds', of the peer's
# wall time over ours. Processor time is that of the command and of a mount that it reads.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C.UTF-8

say() { printf 'bench-images: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

cases=()
repeat=5 files=50000 texts=1500 mebibytes=1024 guest_files=5000
while [ $# -gt 0 ]; do
    case $1 in
        --quick) repeat=2 files=5000 texts=200 mebibytes=256 guest_files=500 ;;
        --repeat) repeat=${2:?how many?}; shift ;;
        --only) cases+=("${2:?which case?}"); shift ;;
        *) say "unknown option $1"; sed -n 's/^# \(usage: .*\)/\1/p' "$0" >&2; exit 2 ;;
    esac
    shift
done
[ ${#cases[@]} -gt 0 ] || cases=(rock udf zisofs fuse big linux)
wants() { [[ " ${cases[*]} " = *" $1 "* ]]; }
[ "$(id -u)" = 0 ] || die 'run this as root'
for program in cargo bsdtar 7z xorriso genisoimage fuseiso qemu-system-x86_64; do
    command -v $program >/dev/null || die "$program is missing (scripts/packages.sh bench images)"
done
[ -c /dev/fuse ] || die '/dev/fuse is missing'
[ -n "${PAGEWELL-}" ] || cargo build --release -q -p pagewell
pagewell=${PAGEWELL:-$(realpath "${CARGO_TARGET_DIR:-target}")/release/pagewell}

work=$(mktemp -d "${BENCH_DIRECTORY:-/var/tmp}/pagewell-images.XXXXXX")
memory=$(mktemp -d "${BENCH_MEMORY:-/dev/shm}/pagewell-images.XXXXXX")
place=$work/mnt
mounter=
mkdir "$place"
finish() {
    umount -l "$place" 2>/dev/null || true
    [ -z "$mounter" ] || kill "$mounter" 2>/dev/null || true
    rm -rf --one-file-system "$work" "$memory"
}
trap finish EXIT
trap 'exit 1' INT TERM

# --- images -------------------------------------------------------------------------------------

# make_tree DIRECTORY COUNT LEAST MOST [text]: the same files each time.
make_tree() {
    python3 - "$@" <<'END'
import os, random, sys
root, count, least, most = sys.argv[1], *map(int, sys.argv[2:5])
chance = random.Random(1)
for number in range(count):
    directory = f"{root}/directory-{number % max(count // 100, 1)}"
    os.makedirs(directory, exist_ok=True)
    length = chance.randint(least, most)
    data = chance.randbytes(length)
    if len(sys.argv) > 5:
        # Each second kilobyte is a line again and again.
        data = b"".join((data[at:at + 512] + b"a line of text\n" * 70)[:1024] for at in range(0, length, 1024))
    with open(f"{directory}/file-{number}", "wb") as file:
        file.write(data[:length])
END
}
made() { "$@" >"$work/output" 2>&1 || die "$(tail -n 5 "$work/output")"; }
say "making images of $files files"
make_tree "$memory/tree" "$files" 512 8192
made xorriso -as mkisofs -quiet -R -o "$work/rock.iso" "$memory/tree"
made genisoimage -quiet -udf -o "$work/udf.iso" "$memory/tree"
rm -rf "$memory/tree"
make_tree "$memory/tree" "$texts" 20000 400000 text
made xorriso -outdev "stdio:$work/zisofs.iso" -map "$memory/tree" / -set_filter_r --zisofs / -- -commit
rm -rf "$memory/tree"
make_tree "$memory/tree" "$guest_files" 512 8192
made genisoimage -quiet -udf -o "$work/small.iso" "$memory/tree"
rm -rf "$memory/tree"
mkdir "$memory/tree"
head -c "$((mebibytes << 20))" /dev/urandom >"$memory/tree/big"
made xorriso -as mkisofs -quiet -R -o "$work/big.iso" "$memory/tree"
rm -rf "$memory/tree"
sync

# --- measuring ----------------------------------------------------------------------------------

# in_turn ROUND NAME...: the names, another one first in each round.
in_turn() {
    local round=$1
    shift
    local first=$((round % $#))
    echo "${@:first+1}" "${@:1:first}"
}
# spent: processor time of the mount so far, in seconds.
spent() {
    [ -n "$mounter" ] || { echo 0; return; }
    awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / tick }' "/proc/$mounter/stat"
}
# timed NAME COMMAND...: adds wall and processor time to the runs of NAME.
TIMEFORMAT='%R %U %S'
timed() {
    local name=$1 before time
    shift
    before=$(spent)
    time=$({ time "$@" >"$work/output" 2>"$work/errors"; } 2>&1) || return 1
    awk -v before="$before" -v after="$(spent)" '{ print $1, $2 + $3 + after - before }' <<<"$time" \
        >>"$work/runs.$name"
}
prepare() { # PHASE IMAGE
    case $1 in
        cold) dd if="$2" iflag=nocache count=0 status=none ;;
        warm) cat "$2" >/dev/null ;;
    esac
}
list() { # PROGRAM IMAGE
    case $1 in
        pagewell) "$pagewell" ls -lR "$2" ;;
        bsdtar) bsdtar -tvf "$2" ;;
        7z) 7z l "$2" ;;
        xorriso) xorriso -indev "stdio:$2" -find / -exec lsdl ;;
    esac
}
extract() { # PROGRAM IMAGE
    case $1 in
        pagewell) "$pagewell" cp -r --sync=never "$2" "$memory/out" ;;
        bsdtar) bsdtar -xf "$2" -C "$memory/out" ;;
        7z) 7z x -y "-o$memory/out" "$2" ;;
        xorriso) xorriso -osirrox on -indev "stdio:$2" -extract / "$memory/out" ;;
    esac
}
# measure CASE FILES PEER...: each lists and copies the image, cold and warm.
measure() {
    local name=$1 count=$2 round=$3 phase program found image=$work/$1.iso
    shift 3
    for phase in cold warm; do
        for program in $(in_turn "$round" pagewell "$@"); do
            prepare $phase "$image"
            timed "$name-ls-$phase.$program" list "$program" "$image" || die "$program: $(tail -n 3 "$work/errors")"
            found=$(grep -c 'file-' "$work/output") || true
            [ "$found" = "$count" ] || die "$program lists $found of $count files"
        done
        for program in $(in_turn "$round" pagewell "$@"); do
            rm -rf "$memory/out"
            [ "$program" = pagewell ] || mkdir "$memory/out"
            prepare $phase "$image"
            timed "$name-cp-$phase.$program" extract "$program" "$image" || die "$program: $(tail -n 3 "$work/errors")"
            found=$(find "$memory/out" -type f | wc -l)
            [ "$found" = "$count" ] || die "$program copies $found of $count files"
        done
    done
    rm -rf "$memory/out"
}

mount_with() { # PROGRAM
    local tries=0
    if [ "$1" = pagewell ]; then
        "$pagewell" mount --foreground "$work/rock.iso" "$place" >"$work/ready" 2>"$work/mount.log" &
    else
        fuseiso "$work/rock.iso" "$place" -f >"$work/mount.log" 2>&1 &
    fi
    mounter=$!
    until mountpoint -q "$place"; do
        kill -0 "$mounter" 2>/dev/null || die "the mount ended: $(cat "$work/mount.log")"
        [ $((tries += 1)) -lt 200 ] || die 'the mount was not ready'
        sleep 0.05
    done
}
unmount() {
    umount "$place" || umount -l "$place"
    wait "$mounter" || true
    mounter=
}
list_mounted() { ls -lR "$place"; }
# Nothing is written: it is reading that is measured.
read_mounted() { find "$place" -name 'file-*' -type f -print0 | xargs -0 cat >/dev/null; }
read_big() { # PROGRAM
    case $1 in
        pagewell) "$pagewell" cat "$work/big.iso::/big" ;;
        dd) dd if="$work/big.iso" iflag=direct bs=1M status=none ;;
    esac >/dev/null
}
# One mount for each: what has been listed is known to the kernel.
through_mount() { # PROGRAM WHAT
    local phase
    prepare cold "$work/rock.iso"
    mount_with "$1"
    for phase in cold warm; do
        timed "fuse-$2-$phase.$1" "${2}_mounted" || { unmount; return 1; }
    done
    unmount
}
# fuseiso is known to crash now and then: what it was to read is then read from a new mount.
crashes=0
beside_fuseiso() { # ROUND
    local what program tries
    for what in list read; do
        for program in $(in_turn "$1" pagewell fuseiso); do
            tries=0
            until through_mount "$program" "$what"; do
                [ "$program" = fuseiso ] || die "the mount cannot be read: $(tail -n 3 "$work/errors")"
                crashes=$((crashes + 1))
                [ $((tries += 1)) -lt 5 ] || die 'fuseiso crashes each time'
            done
        done
    done
}
for round in $(seq "$repeat"); do
    say "round $round of $repeat"
    ! wants rock || measure rock "$files" "$round" bsdtar 7z xorriso
    ! wants udf || measure udf "$files" "$round" 7z
    ! wants zisofs || measure zisofs "$texts" "$round" bsdtar xorriso
    ! wants fuse || beside_fuseiso "$round"
    for program in $(wants big && in_turn "$round" pagewell dd); do
        prepare cold "$work/big.iso"
        timed "big-cold.$program" read_big "$program" || die "$program: $(tail -n 3 "$work/errors")"
    done
done

beside_the_kernel() {
    say 'beside the kernel, in an emulated machine'
    cp "$pagewell" "$work/pagewell"
    tests/guest/boot.sh -t 1200 -k udf -d "$work/small.iso" -a "$work/pagewell" tests/guest/udf.sh "$repeat" \
        >"$work/guest.log" || die "$(grep -v '^\[' "$work/guest.log" | tail -n 5)"
    for name in linux-ls.pagewell linux-ls.kernel linux-cp.pagewell linux-cp.kernel; do
        tr -d '\r' <"$work/guest.log" | awk -v name="$name" '$1 == name { print $2, $3 + $4 }' >"$work/runs.$name"
    done
}
! wants linux || beside_the_kernel

# --- the table ----------------------------------------------------------------------------------

failed=0
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
times() { # NAME
    printf '%8.2f s, %6.2f s' "$(median <"$work/runs.$1")" "$(awk '{ print $2 }' "$work/runs.$1" | median)"
}
compare() { # CASE PEER WANTED
    local ratio
    wants "${1%%-*}" || return 0
    ratio=$(paste "$work/runs.$1.pagewell" "$work/runs.$1.$2" | awk '{ print $3 / $1 }' | median)
    printf '%-16s %-9s %22s %22s %7.2f %6s ' "$1" "$2" "$(times "$1.pagewell")" "$(times "$1.$2")" "$ratio" "$3"
    if awk -v r="$ratio" -v w="$3" 'BEGIN { exit r < w }'; then echo PASS; else echo FAIL; failed=1; fi
}
printf '\n%-16s %-9s %22s %22s %7s %6s\n' case peer 'pagewell wall, cpu' 'peer wall, cpu' ratio wanted
for work_done in ls cp; do
    for phase in cold warm; do
        for peer in bsdtar 7z xorriso; do compare "rock-$work_done-$phase" "$peer" 1; done
    done
done
for work_done in ls cp; do
    for phase in cold warm; do compare "udf-$work_done-$phase" 7z 1; done
done
for phase in cold warm; do
    for peer in bsdtar xorriso; do compare "zisofs-ls-$phase" "$peer" 1; done
    compare "zisofs-cp-$phase" bsdtar 1.5
    compare "zisofs-cp-$phase" xorriso 1
done
for what in list read; do
    for phase in cold warm; do compare "fuse-$what-$phase" fuseiso 6; done
done
compare big-cold dd 0.95
compare linux-ls kernel 1
compare linux-cp kernel 1
[ $crashes = 0 ] || printf '\nfuseiso crashed %s times while it was read\n' "$crashes"
printf '\n%s, %s processors, %s and %s files, %s in the emulated machine, %s MiB; %s rounds\n' \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$files" "$texts" \
    "$guest_files" "$mebibytes" "$repeat"
exit "$failed"
