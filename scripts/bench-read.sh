#!/usr/bin/env bash
# Measures cold reads through the page cache beside the programs that read the same bytes: fio at
# its best, dd past the page cache, bsdtar and 7z on an image. Exit status 0 when every requirement
# is met.
#
# usage: scripts/bench-read.sh [--quick] [--repeat N] [--no-document]
#   --quick        a quarter of the bytes and files, 3 rounds, docs/results/read.md stays as it is
#   --repeat N     rounds (9)
#   --no-document  leave docs/results/read.md as it is
#
# Needs 5 GiB in BENCH_DIRECTORY (default /var/tmp), which should be on the disk that matters. Before
# each run the file is dropped from the kernel's page cache. The order of the programs is any in each
# round, and the ratio is taken inside a round.
#
# fio reads into huge pages, which is its best, where some can be set aside (root; what was set
# aside before is restored at the end); else into ordinary pages, which is said.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

say() { printf 'bench-read: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

repeat=9 document=docs/results/read.md mebibytes=2048 image_mebibytes=1024 directories=50
command='make bench-read'
[ $# -eq 0 ] || command+=" BENCH_OPTIONS='$*'"
while [ $# -gt 0 ]; do
    case $1 in
        --quick) repeat=3 document='' mebibytes=512 image_mebibytes=256 directories=12 ;;
        --repeat) repeat=${2:?how many?}; shift ;;
        --no-document) document='' ;;
        *) say "unknown option $1"; sed -n 's/^# \(usage: .*\)/\1/p' "$0" >&2; exit 2 ;;
    esac
    shift
done
for program in fio dd xorriso bsdtar 7z cargo; do
    command -v "$program" >/dev/null || die "$program is missing (scripts/packages.sh bench)"
done
cargo build --release -q -p pagewell
cargo build --release -q -p pagewell-cache --example read_file
programs=${CARGO_TARGET_DIR:-target}/release
pagewell=$programs/pagewell

# 64 MiB of buffers, and room for others who take some.
huge_pages=/proc/sys/vm/nr_hugepages huge_pages_wanted=80 huge_pages_before=
set_aside_huge_pages() {
    local before free
    before=$(cat "$huge_pages" 2>/dev/null) || return 1
    { echo $((before + huge_pages_wanted)) >"$huge_pages"; } 2>/dev/null || return 1
    huge_pages_before=$before
    free=$(awk '/^HugePages_Free:/ { print $2 }' /proc/meminfo)
    [ "$free" -ge "$huge_pages_wanted" ]
}
restore_huge_pages() {
    [ -z "$huge_pages_before" ] || echo "$huge_pages_before" >"$huge_pages" || true
    huge_pages_before=
}

work=$(mktemp -d "${BENCH_DIRECTORY:-/var/tmp}/pagewell-bench.XXXXXX")
trap 'restore_huge_pages; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
if set_aside_huge_pages; then
    fio_memory=shmhuge fio_pages='huge pages'
else
    restore_huge_pages
    fio_memory=malloc fio_pages='ordinary pages'
    say "no huge pages can be set aside: fio reads into ordinary pages, which is not its best"
fi

say "making a file, an image of one large file and an image of $((directories * 1000)) small ones"
head -c "${mebibytes}M" /dev/urandom >"$work/file"
mkdir "$work/large"
head -c "${image_mebibytes}M" "$work/file" >"$work/large/big"
xorriso -as mkisofs -quiet -R -o "$work/large.iso" "$work/large" 2>/dev/null
rm -r "$work/large"
for directory in $(seq -w "$directories"); do
    mkdir -p "$work/small/$directory"
    # 1000 files of 4 KiB and a bit in each.
    tail -c +"$((10#$directory * 4321000))" "$work/file" | head -c 4321000 |
        split -b 4321 -a 3 -d - "$work/small/$directory/file-" || true
done
xorriso -as mkisofs -quiet -R -o "$work/small.iso" "$work/small" 2>/dev/null
files=$(find "$work/small" -type f | wc -l)
rm -r "$work/small"
sync

cold() { dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none; }

timed() { # COMMAND...: its seconds
    local begin=$EPOCHREALTIME end
    "$@" >/dev/null 2>&1 || die "failed: $*"
    end=$EPOCHREALTIME
    awk -v a="$begin" -v b="$end" 'BEGIN { printf "%.4f", b - a }'
}

rate() { awk -v seconds="$1" -v mib="$2" 'BEGIN { printf "%.1f", mib * 1.048576 / seconds }'; }

run_engine() { # MB/s of 8 KiB reads in order, without the start of the program
    cold "$work/file"
    "$programs/examples/read_file" "$work/file" |
        sed -n "s/^$((mebibytes << 20)) bytes .* s, \([0-9]*\) MB.*/\1/p"
}
run_fio() { # DEPTH
    cold "$work/file"
    fio --name=read --filename="$work/file" --rw=read --bs=1M --iodepth="$1" --ioengine=io_uring \
        --direct=1 --readonly --iomem="$fio_memory" --output-format=terse --terse-version=3 |
        awk -F';' '{ printf "%.1f", $7 * 1024 / 1e6 }'
}
run_cat() {
    cold "$work/large.iso"
    rate "$(timed "$pagewell" cat "$work/large.iso::/big")" "$image_mebibytes"
}
run_dd() {
    cold "$work/large.iso"
    rate "$(timed dd if="$work/large.iso" of=/dev/null bs=1M iflag=direct)" "$image_mebibytes"
}
run_small() { # of cat -r, bsdtar, 7z: files a second
    cold "$work/small.iso"
    local seconds
    case $1 in
        pagewell) seconds=$(timed "$pagewell" cat -r "$work/small.iso") ;;
        bsdtar) seconds=$(timed bsdtar -xOf "$work/small.iso") ;;
        7z) seconds=$(timed 7z t "$work/small.iso") ;;
    esac
    awk -v n="$files" -v s="$seconds" 'BEGIN { printf "%.0f", n / s }'
}

# What is timed goes to /dev/null: whether it is all that there is is asked once, before.
gives() { # BYTES COMMAND...
    local bytes=$1 found
    shift
    found=$("$@" 2>/dev/null | wc -c) || die "failed: $*"
    [ "$found" = "$bytes" ] || die "$found bytes, not $bytes, of: $*"
}
gives $((image_mebibytes << 20)) "$pagewell" cat "$work/large.iso::/big"
gives $((files * 4321)) "$pagewell" cat -r "$work/small.iso"
gives $((files * 4321)) bsdtar -xOf "$work/small.iso"
7z t "$work/small.iso" | grep -qx "Files: $files" || die "7z does not test $files files"

median() { sort -g | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
low() { sort -g | head -n 1; }
high() { sort -g | tail -n 1; }

# name, unit, ours, its peers, how to combine them, least ratio
cases='
sequential 8 KiB reads of a file|MB/s|run_engine|run_fio 4;run_fio 16;run_fio 32|0.95|best of fio 1 MiB, depth 4, 16, 32, '"$fio_pages"'
one large file in an ISO image|MB/s|run_cat|run_dd|0.90|dd of the image, O_DIRECT, 1 MiB
small files in an ISO image, bsdtar|files/s|run_small pagewell|run_small bsdtar|1.00|bsdtar -xOf
small files in an ISO image, 7z|files/s|run_small pagewell|run_small 7z|1.00|7z t
'
# One round: every program once, in any order, since a disk that was busy a moment ago is faster than
# one that was not. Each run is a line, so that lines of the same number are of one round.
one_round() { # COMMAND...: runs in $work/runs.0 (ours), .1, .2 and so on
    local number value
    for number in $(seq 0 $(($# - 1)) | shuf); do
        value=$(${@:number + 1:1})
        [ -n "$value" ] || die "no result of: ${*:number + 1:1}"
        echo "$value" >>"$work/runs.$number"
    done
}

failed=0
table=$work/table
{
    echo '| case | unit | pagewell | peer | pagewell / peer | must be | |'
    echo '| --- | --- | ---: | ---: | ---: | ---: | --- |'
} >"$table"
while IFS='|' read -r name unit ours peers least peer_name; do
    [ -n "$name" ] || continue
    say "$name"
    IFS=';' read -ra list <<<"$peers"
    rm -f "$work"/runs.*
    for _ in $(seq "$repeat"); do
        one_round "$ours" "${list[@]}"
    done
    # The best of several peers is the one that ours stands worst beside in the middle of all
    # rounds. The best of each round would be the luckiest.
    best=
    for number in $(seq "${#list[@]}"); do
        paste "$work/runs.0" "$work/runs.$number" | awk '{ printf "%.3f\n", $1 / $2 }' >"$work/ratios"
        value=$(median <"$work/ratios")
        if [ -z "$best" ] || awk -v a="$value" -v b="$ratio" 'BEGIN { exit !(a < b) }'; then
            best=$number ratio=$value
            cp "$work/ratios" "$work/ratios.best"
        fi
    done
    [ "${#list[@]}" = 1 ] || peer_name+=": ${list[best - 1]#run_}"
    verdict=$(awk -v r="$ratio" -v l="$least" 'BEGIN { print (r >= l) ? "PASS" : "FAIL" }')
    [ "$verdict" = PASS ] || failed=1
    printf '| %s (%s) | %s | %s | %s | %s (%s..%s) | %s | %s |\n' "$name" "$peer_name" "$unit" \
        "$(median <"$work/runs.0")" "$(median <"$work/runs.$best")" "$ratio" \
        "$(low <"$work/ratios.best")" "$(high <"$work/ratios.best")" "$least" "$verdict" >>"$table"
done <<<"$cases"
cat "$table"

if [ -n "$document" ]; then
    {
        echo "Made by \`$command\` on$(sed -n 's/^model name.*:/:/p' /proc/cpuinfo | head -n 1 | tr -d ':'),"
        echo "$(nproc) processors, Linux $(uname -r), load average $(cut -d' ' -f1 /proc/loadavg) at the end."
        echo "$repeat rounds; numbers are medians, a ratio is the median of the rounds' ratios with the"
        echo "lowest and the highest. The file has $mebibytes MiB, the large image $image_mebibytes MiB, the"
        echo "other $files files of 4321 bytes."
        echo
        cat "$table"
    } >"$work/document"
    awk -v with="$work/document" '
        /<!-- bench-read begin -->/ { print; while ((getline line < with) > 0) print line; skip = 1 }
        /<!-- bench-read end -->/ { skip = 0 }
        !skip && !/<!-- bench-read begin -->/ { print }
    ' "$document" >"$work/new"
    cp "$work/new" "$document"
fi
exit "$failed"
