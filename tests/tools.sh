#!/usr/bin/env bash
# Builds the test programs that are Rust crates of others into target/tools/bin, pinned and cached.
#
# usage: tests/tools.sh NAME...        NAME is pjdfstest or fsx
#
# With everything there it takes a moment. The exit status is 1 when one cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
root=${CARGO_TARGET_DIR:-$PWD/target}/tools

version_of() {
    case $1 in
        pjdfstest) echo 0.2.2 ;;
        fsx) echo 0.3.2 ;;
        *) echo "tools: unknown tool '$1'" >&2; exit 2 ;;
    esac
}

# Scenarios run side by side; the second finds what the first has built.
mkdir -p "$root"
exec 9>"$root/lock"
flock 9
for name in "$@"; do
    version=$(version_of "$name")
    [ ! -e "$root/$name-$version" ] || continue
    echo "tools: building $name $version" >&2
    cargo install --quiet --locked --root "$root" --version "$version" "$name" >&2
    : >"$root/$name-$version"
done
echo "$root/bin"
