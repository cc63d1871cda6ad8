#!/usr/bin/env bash
# The corpus of images: makes trees and images of them with writers of others, reads each image with
# Pagewell, bsdtar, 7z, xorriso and a Linux kernel in an emulated machine, and compares entry by entry.
#
# usage: tests/images/run.sh [--table] [NAME...]     all images when none is named (recipes.py)
#
# --table writes what was counted into docs/IMAGES.md. PAGEWELL is the program, built unless it is
# given. Everything is below ${CARGO_TARGET_DIR:-target}/images: trees
# and images stay there, and are made anew when their recipe has changed; read/READER/IMAGE.said is what
# a reader said. Needs root, for owners, device nodes and mounts. Five minutes, four of them for the
# emulated machine; IMAGES_GUEST=no leaves it out.
#
# The exit status is 1 when Pagewell shows fewer entries of an image right than another reader.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
export LC_ALL=C.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=1
PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin
table=()
[ "${1-}" != --table ] || { table=(--table docs/IMAGES.md); shift; }
[ "$(id -u)" = 0 ] || { echo 'images: needs root, for owners and device nodes' >&2; exit 77; }
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/images")
if [ -z "${PAGEWELL-}" ]; then
    cargo build -q -p pagewell
    PAGEWELL=$(realpath -m "${CARGO_TARGET_DIR:-target}/debug/pagewell")
fi
export PAGEWELL

writers=$("$here/writers.sh")
mkdir -p "$folder/images"
# Images of other trees are not what these say.
trees=$(sha256sum <"$here/trees.py")
if [ "$trees" != "$(cat "$folder/made-by" 2>/dev/null)" ]; then
    rm -rf "$folder"/{trees,images,read}
    mkdir -p "$folder"/{trees,images}
    echo "$trees" >"$folder/made-by"
fi
python3 "$here/trees.py" "$folder/trees"
python3 "$here/recipes.py" "$folder/trees" "$folder/images" "$writers"
[ "${IMAGES_GUEST-}" = no ] || python3 "$here/guest.py" fill "$folder/trees" "$folder/images"
files=()
for name in "$@"; do
    for file in "$folder/images/$name".*; do
        case $file in *.cue) ;; *) files+=("${file##*/}") ;; esac
    done
done
python3 "$here/readers.py" "$folder/images" "$folder/read" "${files[@]}"
# The kernel reads the same today as yesterday.
[ "${IMAGES_GUEST-}" = no ] || python3 "$here/guest.py" read "$folder/images" "$folder/read" "${files[@]}"
python3 "$here/compare.py" "${table[@]}" "$folder/trees" "$folder/images" "$folder/read" "$@"
