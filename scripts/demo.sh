#!/usr/bin/env bash
# Shows what Pagewell does: serves a directory, an ISO image and a RAM file system at once,
# reads and writes them with libnfs, compares checksums and prints the counters.
# Everything happens in a temporary directory and on the loopback address.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '  $ %s\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }
[ -t 1 ] || step() { printf '\n%s\n' "$*"; }

step '1. Build the program'
show make build
cargo build --release -p pagewell
pagewell=${CARGO_TARGET_DIR:-target}/release/pagewell

work=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

step '2. Make something to serve'
mkdir -p "$work/files/photos/2024"
head -c 20971520 /dev/urandom >"$work/files/film.bin"
for number in 1 2 3 4 5; do
    head -c $((number * 40000)) /dev/urandom >"$work/files/photos/2024/picture $number.jpg"
done
echo 'Pagewell serves this line.' >"$work/files/readme.txt"
ln -s readme.txt "$work/files/link"
xorriso -as mkisofs -quiet -R -J -o "$work/disc.iso" "$work/files" 2>"$work/log" ||
    { cat "$work/log"; die 'xorriso failed'; }
echo "  a directory of $(find "$work/files" -type f | wc -l) files, and an ISO image of it:" \
    "$(($(stat -c %s "$work/disc.iso") / 1048576)) MiB"

step '3. Serve the directory, the image and 256 MiB of memory'
# Root on this machine stays root on the exports; otherwise only its own user may write.
show "pagewell serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --squash none" \
    '/dir=FILES /iso=disc.iso /ram=ram:256m'
"$pagewell" serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --squash none \
    --state-dir "$work/state" "/dir=$work/files" "/iso=$work/disc.iso" /ram=ram:256m >"$work/ready" 2>"$work/errors" &
server=$!
for _ in {1..2400}; do
    grep -q '^ready' "$work/ready" && break
    kill -0 "$server" 2>/dev/null || { cat "$work/errors"; die 'the server did not start'; }
    sleep 0.05
done
sed 's/^/  /' "$work/ready"
port=$(sed -nE 's,^ready nfs://127\.0\.0\.1:([0-9]+)/.*,\1,p' "$work/ready")
http=$(sed -nE 's,.*metrics http://([^/]+)/metrics.*,\1,p' "$work/errors")
[ -n "$port" ] || die 'no port in the ready line'

url() { echo "nfs://127.0.0.1$1?nfsport=$port&mountport=$port&version=3"; }
equal() { # FILE FILE WHAT
    cmp -s "$1" "$2" || die "$3: the bytes differ"
    echo "  $3: $(sha256sum <"$2" | cut -c1-16)... as it should be"
}

step '4. List the image with a real NFS client (nfs-ls of libnfs)'
show "nfs-ls -R 'nfs://127.0.0.1/iso?nfsport=$port&mountport=$port&version=3'"
nfs-ls -R "$(url /iso)" | sed 's/^/  /'

step '5. Read all three, and compare checksums'
nfs-cat "$(url /dir/film.bin)" >"$work/out"
equal "$work/files/film.bin" "$work/out" 'film.bin from the directory'
nfs-cat "$(url /iso/film.bin)" >"$work/out"
equal "$work/files/film.bin" "$work/out" 'film.bin from the image    '
nfs-cat "$(url '/iso/photos/2024/picture 5.jpg')" >"$work/out"
equal "$work/files/photos/2024/picture 5.jpg" "$work/out" 'a picture from the image   '

step '6. Write, and read back'
show "nfs-cp film.bin 'nfs://127.0.0.1/ram/copy.bin?...'"
nfs-cp "$work/files/film.bin" "$(url /ram/copy.bin)" >"$work/log" || die 'nfs-cp to the RAM'
nfs-cat "$(url /ram/copy.bin)" >"$work/out"
equal "$work/files/film.bin" "$work/out" 'copy.bin in the RAM        '
nfs-cp "$work/files/readme.txt" "$(url /dir/new.txt)" >"$work/log" || die 'nfs-cp to the directory'
equal "$work/files/readme.txt" "$work/files/new.txt" 'new.txt in the directory   '
if nfs-cp "$work/files/readme.txt" "$(url /iso/new.txt)" >"$work/log" 2>&1; then
    die 'an image was written to'
fi
echo '  the image refuses to be written, as it should'

step '7. Ask the server what it did'
show "pagewell counters --connect $http"
"$pagewell" counters --connect "$http" | sed 's/^/  /'

step '8. Stop it cleanly'
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
[ "$status" = 0 ] || { cat "$work/errors"; die "the server ended with status $status"; }
cat <<END
  stopped with exit status 0

Shown: one server, three kinds of source on one port, a real NFS client that listed, read and
wrote them, and every checksum was right. To mount such a server with a kernel, see
docs/OPERATING.md; 'make test' runs all tests.
END
