#!/usr/bin/env bash
# go-diskfs 1.9.4, an image with Joliet: the names of a directory below the root are written into the
# Joliet tree in bytes and not in UCS-2, so that a reader takes two letters for one: docs/readme.txt is
# docs/ and six Chinese letters. It is the short name, README.TXT;1. Names in the root are right. With
# Rock Ridge besides, readers that prefer it (Linux, bsdtar, xorriso) do not see this; 7z does.
#
# Seen, with 7z 26.02, which prefers Joliet: "docs docs/剅䅄䵅⹔塔㬱 readme.txt". Exit status 1 when that
# changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/source" "$work/tree"
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
	check(filesystem.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: "NAMES"}))
}
END
(
    go mod init names
    go get github.com/diskfs/go-diskfs@v1.9.4
    go mod tidy
    go build -o "$work/names" .
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download p7zip-full=16.02+really26.02+dfsg-0+deb12u1 \
        p7zip=16.02+really26.02+dfsg-0+deb12u1
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cd "$work"
mkdir tree/docs
echo bytes >tree/readme.txt
echo bytes >tree/docs/readme.txt
./names tree image
export LC_ALL=C.UTF-8
{ root/usr/lib/p7zip/7z l -ba -slt image 2>/dev/null || true; } | sed -n 's/^Path = //p' | sort | tee names
[ "$(paste -s -d ' ' names)" = 'docs docs/剅䅄䵅⹔塔㬱 readme.txt' ]
