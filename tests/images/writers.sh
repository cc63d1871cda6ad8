#!/usr/bin/env bash
# Writers of images from registries, each at one version and once, below
# ${CARGO_TARGET_DIR:-target}/images/writers, and never into the system. Prints that folder.
#
# usage: tests/images/writers.sh
#
#   pycdlib 1.22.0         its genisoimage
#   udfkit 0.1.0           UDF 2.50 with a metadata partition, as Blu-ray discs have it
#   images-go              go-diskfs 1.9.4 and kdomanski/iso9660 0.4.0, behind writers/go
#   images-rust            hadris-iso and hadris-udf 3.0.0-rc.2, behind writers/rust
#   maxcso 1.13.0          compresses images: CSO, ZSO
#
# One that cannot be had is named, and costs its images alone. xorriso, genisoimage, bsdtar and mkudffs
# are those of the system.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/images/writers")
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9

missing() { echo "images: no $*" >&2; }

python_writers() {
    [ ! -x "$folder/udfkit" ] || return 0
    python3 -m venv "$folder/python" &&
        "$folder/python/bin/python" -m pip install -q --disable-pip-version-check \
            pycdlib==1.22.0 udfkit==0.1.0 >&2 || return
    ln -sf python/bin/pycdlib-genisoimage python/bin/udfkit "$folder/"
}

go_writers() {
    if [ "$folder/images-go" -nt "$here/writers/go/main.go" ]; then return; fi
    go build -C "$here/writers/go" -trimpath -o "$folder/images-go" . >&2
}

rust_writers() {
    if [ "$folder/images-rust" -nt "$here/writers/rust/src/main.rs" ]; then return; fi
    cargo build -q --locked --manifest-path "$here/writers/rust/Cargo.toml" \
        --target-dir "$folder/rust" >&2 && cp "$folder/rust/debug/images-rust" "$folder/"
}

node_writers() {
    local package=@emmercm/maxcso-linux-x64
    [ ! -x "$folder/maxcso" ] || return 0
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder/node" \
        "$package@0.1130.16" >&2 || return
    chmod +x "$folder/node/node_modules/$package/dist/maxcso"
    ln -sf "node/node_modules/$package/dist/maxcso" "$folder/"
}

python_writers || missing 'pycdlib and udfkit: they need python3-venv and a registry'
go_writers || missing 'go-diskfs and kdomanski/iso9660: they need Go 1.26 and a registry'
rust_writers || missing 'hadris-iso and hadris-udf: they need a registry'
node_writers || missing 'maxcso: it needs npm, a registry and a processor of type x86-64'
echo "$folder"
