#!/usr/bin/env bash
# Measures `pagewell cp -r` beside its peers: out of an ISO image beside bsdtar and xorriso, into an
# export and back beside cp(1) on a mount of the Linux kernel. Exit status 0 when it is nowhere slower.
#
# usage: scripts/bench-copy.sh [--quick] [--repeat N]
#   --quick      few files, 2 rounds
#   --repeat N   rounds; in each all programs in turn, the first another one each time (5)
#
# The files have 0.5 to 8 KB. They are copied out of the image into memory ($BENCH_MEMORY, /dev/shm),
# and nothing is synced, as the peers do not; cold means that the kernel has nothing of the image.
# Again: onto the disk of $BENCH_DIRECTORY (/var/tmp), warm, right after the last copy was removed.
# Beside the kernel both programs run in an emulated machine, and the export is served by this one: only
# their ratio counts. There all is on the device at the end of a copy into the export (cp: with
# `sync -f`), and nothing is cached before a copy back. The ratio is the median of the rounds'.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C

say() { printf 'bench-copy: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

repeat=5 files=50000 guest_files=1000
while [ $# -gt 0 ]; do
    case $1 in
        --quick) repeat=2 files=2000 guest_files=200 ;;
        --repeat) repeat=${2:?how many?}; shift ;;
        *) say "unknown option $1"; sed -n 's/^# \(usage: .*\)/\1/p' "$0" >&2; exit 2 ;;
    esac
    shift
done
for program in cargo bsdtar xorriso qemu-system-x86_64; do
    command -v $program >/dev/null || die "$program is missing (scripts/packages.sh bench)"
done
cargo build --release -q -p pagewell
pagewell=$(realpath "${CARGO_TARGET_DIR:-target}")/release/pagewell

work=$(mktemp -d "${BENCH_DIRECTORY:-/var/tmp}/pagewell-copy.XXXXXX")
memory=$(mktemp -d "${BENCH_MEMORY:-/dev/shm}/pagewell-copy.XXXXXX")
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf --one-file-system "$work" "$memory"
}
trap finish EXIT
trap 'exit 1' INT TERM

# make_tree DIRECTORY COUNT: the same files each time.
make_tree() {
    python3 - "$@" <<'END'
import os, random, sys
root, count = sys.argv[1], int(sys.argv[2])
chance = random.Random(1)
for number in range(count):
    directory = f"{root}/directory-{number % max(count // 500, 1)}"
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/file-{number}", "wb") as file:
        file.write(chance.randbytes(chance.randint(512, 8192)))
END
}
# in_turn ROUND NAME...: the names, another one first in each round.
in_turn() {
    local round=$1
    shift
    local first=$((round % $#))
    echo "${@:first+1}" "${@:1:first}"
}
# timed NAME COMMAND...: adds wall and processor time to the runs of NAME.
TIMEFORMAT='%R %U %S'
timed() {
    local name=$1
    shift
    { time "$@" >"$work/output" 2>&1; } 2>>"$work/runs.$name" || die "$name: $(tail -n 3 "$work/output")"
}

say "making an image of $files files"
make_tree "$memory/tree" "$files"
xorriso -as mkisofs -quiet -R -o "$work/image.iso" "$memory/tree" >"$work/output" 2>&1 ||
    die "$(cat "$work/output")"
rm -rf "$memory/tree"
sync -f "$work/image.iso"

extract() { # PROGRAM
    case $1 in
        pagewell) "$pagewell" cp -r --sync=never "$work/image.iso" "$out" ;;
        bsdtar) bsdtar -x -f "$work/image.iso" -C "$out" ;;
        xorriso) xorriso -osirrox on -indev "$work/image.iso" -extract / "$out" ;;
    esac
}
extract_once() { # PROGRAM PHASE
    local found out=$memory/out
    [ "$2" != again ] || out=$work/out
    rm -rf "$out"
    [ "$1" = pagewell ] || mkdir "$out"
    case $2 in
        cold) dd if="$work/image.iso" iflag=nocache count=0 status=none ;;
        warm | again) cat "$work/image.iso" >/dev/null ;;
    esac
    timed "$2.$1" extract "$1"
    found=$(find "$out" -type f | wc -l)
    [ "$found" = "$files" ] || die "$1 copied $found of $files files"
}
extract_once bsdtar again
rm "$work/runs.again.bsdtar"
for round in $(seq "$repeat"); do
    say "round $round of $repeat"
    for phase in warm cold; do
        for program in $(in_turn "$round" pagewell bsdtar xorriso); do
            extract_once "$program" "$phase"
        done
    done
    for program in $(in_turn "$round" pagewell bsdtar); do extract_once "$program" again; done
done
rm -rf "$memory/out" "$work/out"

say 'copying beside the kernel, in an emulated machine'
make_tree "$work/tree" "$guest_files"
tar -c -C "$work/tree" . >"$work/tree.tar"
mkdir "$memory/served"
"$pagewell" serve --listen 127.0.0.1:0 --state-dir "$work/state" --squash none \
    "/dir=$memory/served" >"$work/ready" 2>"$work/server.log" &
server=$!
for _ in $(seq 200); do
    ! grep -q '^ready ' "$work/ready" || break
    kill -0 "$server" 2>/dev/null || die "the server ended: $(cat "$work/server.log")"
    sleep 0.05
done
port=$(sed -nE 's,^ready nfs://127\.0\.0\.1:([0-9]+)/.*,\1,p' "$work/ready")
[ -n "$port" ] || die 'the server is not ready'
tests/guest/boot.sh -t 1200 -a "$pagewell" -a "$work/tree.tar" tests/guest/copy.sh \
    "$port" "$repeat" >"$work/guest.log" || die "$(grep -v '^\[' "$work/guest.log" | tail -n 5)"
for name in into.pagewell into.kernel back.pagewell back.kernel; do
    sed -n "s/^$name //p" "$work/guest.log" >"$work/runs.$name"
done

# Medians of wall and of processor time, and of what the peer's wall time is in ours.
failed=0
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf '\n%-10s %-9s %22s %22s %7s\n' case peer 'pagewell wall, cpu' 'peer wall, cpu' ratio
times() { # NAME
    printf '%8.2f s, %6.2f s' "$(median <"$work/runs.$1")" \
        "$(awk '{ print $2 + $3 }' "$work/runs.$1" | median)"
}
compare() { # CASE PEER
    local ratio
    ratio=$(paste "$work/runs.$1.pagewell" "$work/runs.$1.$2" | awk '{ print $4 / $1 }' | median)
    printf '%-10s %-9s %22s %22s %7.2f ' "$1" "$2" "$(times "$1.pagewell")" "$(times "$1.$2")" "$ratio"
    if awk -v r="$ratio" 'BEGIN { exit r < 1 }'; then echo PASS; else echo FAIL; failed=1; fi
}
for phase in warm cold; do
    for peer in bsdtar xorriso; do compare "$phase" "$peer"; done
done
compare again bsdtar
processor=$(paste "$work/runs.again.pagewell" "$work/runs.again.bsdtar" |
    awk '{ print ($2 + $3) / ($5 + $6) }' | median)
printf 'again, processor time in that of bsdtar: %.2f ' "$processor"
if awk -v r="$processor" 'BEGIN { exit r > 1.2 }'; then echo PASS; else echo FAIL; failed=1; fi
for phase in into back; do compare "$phase" kernel; done
printf '\n%s, %s processors, %s files, beside the kernel %s; %s rounds\n' \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$files" "$guest_files" "$repeat"
exit "$failed"
