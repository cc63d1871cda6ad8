#!/usr/bin/env bash
# kdomanski/iso9660 0.4.0 (Go): its images have no path tables (length 0, at block 0; ECMA-119 8.4.14 and
# 9.4 want two). bsdtar 3.6.2 does not take them for ISO 9660 therefore, but for an empty tar archive, since
# the first blocks are zeros: it extracts nothing, without a word and with exit status 0. With another number
# of a block in the place of the 0, it extracts all. 7z 26.02 and xorriso 1.5.4 do so as it is.
#
# Seen: "path table of 0 bytes at 0" and, as files, "bsdtar 0, status 0; bsdtar with 18 for the 0: 2; 7z 2".
# Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/source" "$work/tree/docs" "$work/out/bsdtar" "$work/out/changed"
cd "$work/source"
cat >main.go <<'END'
package main

import (
	"os"

	"github.com/kdomanski/iso9660"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	writer, err := iso9660.NewWriter()
	check(err)
	check(writer.AddLocalDirectory(os.Args[1], "/"))
	image, err := os.Create(os.Args[2])
	check(err)
	check(writer.WriteTo(image, "FILES"))
	check(image.Close())
	check(writer.Cleanup())
}
END
(
    go mod init written
    go get github.com/kdomanski/iso9660@v0.4.0
    go build -o "$work/written" .
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download libarchive-tools=3.6.2-1+deb12u5 \
        libarchive13=3.6.2-1+deb12u5 p7zip-full=16.02+really26.02+dfsg-0+deb12u1 \
        p7zip=16.02+really26.02+dfsg-0+deb12u1
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cd "$work"
echo bytes >tree/readme.txt
# bsdtar wants images of 24 blocks and more.
head -c 100000 /dev/zero >tree/docs/zeros
./written tree image
python3 - <<'END' | tee seen
image = bytearray(open("image", "rb").read())
volume = 16 * 2048
assert image[volume + 1:volume + 6] == b"CD001"
length, place = (int.from_bytes(image[volume + at:][:4], "little") for at in (132, 140))
print(f"path table of {length} bytes at {place}")
image[volume + 140:volume + 144] = (18).to_bytes(4, "little")
open("changed", "wb").write(image)
END
bsdtar() { LD_LIBRARY_PATH=$(dirname root/usr/lib/*/libarchive.so.13) root/usr/bin/bsdtar "$@"; }
status=0
bsdtar -xf image -C out/bsdtar || status=$?
bsdtar -xf changed -C out/changed
root/usr/lib/p7zip/7z x -oout/7z image >log || { cat log; exit 1; }
cmp out/7z/readme.txt tree/readme.txt
files() { find "out/$1" -type f | wc -l; }
{
    echo "bsdtar $(files bsdtar), status $status; bsdtar with 18 for the 0: $(files changed); 7z $(files 7z)"
} | tee -a seen
[ "$(cat seen)" = 'path table of 0 bytes at 0
bsdtar 0, status 0; bsdtar with 18 for the 0: 2; 7z 2' ]
