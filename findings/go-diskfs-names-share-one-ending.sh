#!/usr/bin/env bash
# go-diskfs 1.9.4, an image with Rock Ridge: names of more than about 200 bytes go on in a continuation
# area, and all records of a directory below the root point to the same one, so that all names get the
# ending of one of them. Three names of 220 bytes that differ in the last byte are one name to bsdtar,
# which extracts one file of three, with exit status 0. Nothing is said when the image is written.
#
# Seen: "3 files written, 1 extracted". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/source" "$work/tree/below" "$work/out"
cd "$work/source"
cat >main.go <<'END'
package main

import (
	"os"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	image, err := os.Create(os.Args[2])
	check(err)
	filesystem, err := iso9660.Create(file.New(image, false), 0, 0, 2048, os.Args[1])
	check(err)
	check(filesystem.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: "NAMES"}))
}
END
(
    go mod init names
    go get github.com/diskfs/go-diskfs@v1.9.4
    go mod tidy
    go build -o "$work/names" .
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download libarchive-tools=3.6.2-1+deb12u5 \
        libarchive13=3.6.2-1+deb12u5
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cd "$work"
long=$(printf 'n%.0s' $(seq 219))
for last in 1 2 3; do echo "bytes of $last" >"tree/below/$long$last"; done
written=$(find tree -type f | wc -l)
./names tree image
LD_LIBRARY_PATH=$(dirname root/usr/lib/*/libarchive.so.13) root/usr/bin/bsdtar -xf image -C out
seen="$written files written, $(find out -type f | wc -l) extracted"
echo "$seen"
[ "$seen" = '3 files written, 1 extracted' ]
