#!/usr/bin/env bash
# pycdlib 1.22.0, UDF: each directory says that its parent is the root directory, also one below another
# (ECMA-167 4/8.6: the first file identifier names the parent). Readers that go up by it, as over NFS
# for `..` of a handle, end at the root.
#
# Seen: "below/inner says that its parent is the root". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/python"
"$work/python/bin/pip" -q install pycdlib==1.22.0
cat >"$work/script" <<'END'
import struct
import sys
import pycdlib

image = pycdlib.PyCdlib()
image.new(udf="2.60")
for path in ("below", "below/inner"):
    image.add_directory(udf_path="/" + path)
image.write(sys.argv[1])
image.close()
START, BLOCK = 257, 2048
data = open(sys.argv[1], "rb").read()


def block(number):
    return data[(START + number) * BLOCK:][:BLOCK]


def identifiers(entry):
    """Characteristics, block of the entry and name of what the directory of an entry holds."""
    attributes, = struct.unpack_from("<I", block(entry), 168)
    length, first = struct.unpack_from("<II", block(entry), 176 + attributes)
    content, at = data[(START + first) * BLOCK:][:length & 0x3fffffff], 0
    while at + 38 <= len(content):
        flags, name_length = content[at + 18], content[at + 19]
        place, used = struct.unpack_from("<I", content, at + 24)[0], struct.unpack_from("<H", content, at + 36)[0]
        name = content[at + 38 + used:][:name_length]
        yield flags, place, name[1:].decode("latin-1")
        at += (38 + used + name_length + 3) // 4 * 4


root, = struct.unpack_from("<I", block(0), 404)
below, = (place for flags, place, name in identifiers(root) if name == "below")
inner, = (place for flags, place, name in identifiers(below) if name == "inner")
parent = next(place for flags, place, name in identifiers(inner) if flags & 8)
names = {root: "the root", below: "below", inner: "itself"}
print(f"below/inner says that its parent is {names.get(parent, parent)}")
END
"$work/python/bin/python" "$work/script" "$work/image" | tee "$work/seen"
[ "$(cat "$work/seen")" = 'below/inner says that its parent is the root' ]
