#!/usr/bin/env bash
# usage: scripts/package.sh [KIND...]
#
# Makes packages in target/package: of the kinds deb, rpm and static, or all three. So that the
# same commit gives the same bytes, times are that of the commit, and paths are those of no machine;
# scripts/package-check.sh shows it.
#
#   deb     pagewell_VERSION_ARCHITECTURE.deb and pagewell-bench_..., for Debian 12 and later
#   rpm     the same for systems with RPM
#   static  pagewell-VERSION-ARCHITECTURE-static.tar.xz: the program alone, which needs no C library
#
# The tools come from the registry of Rust packages, at the versions named here, into
# target/package/tools (or PAGEWELL_PACKAGE_TOOLS). PAGEWELL_PACKAGE_PROGRAMS names a folder with
# programs that were built otherwise, for packages that are only to be tried: CI takes those of the
# tests, and the five minutes of a build are not spent again.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- deb rpm static
DEB_TOOL=cargo-deb@3.8.0
RPM_TOOL=cargo-generate-rpm@0.21.1

out=$PWD/target/package
stage=$out/stage
tools=${PAGEWELL_PACKAGE_TOOLS:-$out/tools}
build=${PAGEWELL_PACKAGE_BUILD:-$out/build}
host=$(rustc -vV | sed -n 's/^host: //p')
static=${host/-gnu/-musl}
version=$(cargo metadata --no-deps --format-version 1 --offline |
    grep -o '"name":"pagewell","version":"[^"]*"' | cut -d '"' -f 8)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C CARGO_TERM_PROGRESS_WHEN=never
umask 022

say() { printf 'package: %s\n' "$*" >&2; }

need() { # PROGRAM PACKAGE: where it is missing, packages would lack something in silence
    command -v "$1" >/dev/null || { say "$1 is missing (Debian: apt install $2)"; exit 1; }
}

tool() { # NAME@VERSION
    local name=${1%@*} version=${1#*@}
    grep -qs "^\"$name $version " "$tools/.crates.toml" && return
    say "installing $name $version"
    cargo install -q --locked --version "$version" --root "$tools" \
        --target-dir "$tools/build" "$name"
    rm -rf "$tools/build"
}

# No path of this machine in what is built. Of the prefixes that fit, the last one counts.
flags() {
    printf -- '--remap-path-prefix=%s=/pagewell ' "$PWD"
    printf -- '--remap-path-prefix=%s=/build ' "$build"
    printf -- '--remap-path-prefix=%s=/cargo ' "${CARGO_HOME:-$HOME/.cargo}"
    printf -- '--remap-path-prefix=%s=/rust' "$(rustc --print sysroot)"
}

compile() { # TARGET PACKAGE...
    local target=$1
    shift
    say "compiling $* for $target"
    RUSTFLAGS=$(flags) cargo build -q --locked --profile packaged --target "$target" \
        --target-dir "$build" "${@/#/--package=}"
}

# The licences of everything that is linked in, each text once.
licences() {
    local crate name version file registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    echo 'Pagewell contains code of these crates, under the licences that are named:'
    echo
    for crate in pagewell pagewell-bench; do
        cargo tree --offline --locked -p "$crate" -e normal --prefix none -f '{p}|{l}' --target "$host"
    done | sed -n 's/ (proc-macro)//; s/^\([^ ]*\) v\([^ |]*\)|/\1 \2 /p' | sort -u >"$stage/crates"
    cat "$stage/crates"
    while read -r name version _; do
        for file in "$registry"/*/"$name-$version"/{LICENSE,LICENCE,COPYING}*; do
            [ ! -f "$file" ] || printf '%s %s\n' "$(sha256sum <"$file" | cut -c -64)" "${file#"$registry"/*/}"
        done
    done <"$stage/crates" | sort -u -k 1,1 | cut -d ' ' -f 2- | sort | while read -r file; do
        printf '\n==== %s\n\n' "$file"
        # Of several registries that have it, one.
        set -- "$registry"/*/"$file"
        cat "$1"
    done
    printf '\n==== uPlot, in the live page\n\n'
    cat crates/monitor/assets/uPlot-LICENSE
}

# What the packages hold beside the programs.
prepare() {
    rm -rf "$stage"
    mkdir -p "$stage/man" "$stage/bench-man" "$stage/completions"
    "$programs/pagewell" man "$stage/man" >/dev/null
    "$programs/pagewell-bench" man "$stage/bench-man" >/dev/null
    # The page of a program is in the package of that program.
    rm -f "$stage/man/pagewell-bench.1"
    # `pagewell man` puts section 7 beside section 1.
    find "$stage" -name '*.7' -exec mv -t "$stage" {} +
    local shell
    for shell in bash zsh fish; do
        "$programs/pagewell" completions $shell >"$stage/completions/$shell"
    done
    local program
    for program in pagewell pagewell-bench; do
        install "$programs/$program" "$stage/$program"
        [ -z "${PAGEWELL_PACKAGE_PROGRAMS:-}" ] || strip "$stage/$program"
    done
    {
        printf 'Pagewell is licensed under either of the MIT licence and the Apache License 2.0.\n\n'
        cat LICENSE-MIT
        printf '\n----\n\n'
        cat LICENSE-APACHE
    } >"$stage/copyright"
    licences >"$stage/third-party"
    # An RPM has the times of files that are older than the commit.
    cp -r contrib packaging docs CHANGELOG.md "$stage/"
    find "$stage" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
}

make_deb() {
    tool $DEB_TOOL
    local crate
    for crate in pagewell pagewell-bench; do
        PATH=$tools/bin:$PATH CARGO_TARGET_DIR=$build cargo deb -q --no-build --no-strip \
            -p $crate --target "$host" --profile packaged -o "$out/"
    done
}

make_rpm() {
    tool $RPM_TOOL
    local crate
    for crate in crates/pagewell lab/bench; do
        PATH=$tools/bin:$PATH cargo generate-rpm -p $crate --target "$host" \
            --target-dir "$build" --profile packaged --payload-compress zstd -o "$out/"
    done
}

make_static() {
    rustup target list --installed | grep -qx "$static" || rustup target add "$static"
    compile "$static" pagewell
    local name=pagewell-$version-${static%%-*}-static
    mkdir -p "$out/$name"
    cp "$build/$static/packaged/pagewell" LICENSE-MIT LICENSE-APACHE "$stage/third-party" "$out/$name/"
    tar -c --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        -C "$out" "$name" | xz -9e >"$out/$name.tar.xz"
    rm -r "${out:?}/$name"
}

need git git
need cc gcc
for kind in "$@"; do
    case $kind in
        # Without it the package would not say which C library it needs.
        deb) need dpkg-shlibdeps dpkg-dev ;;
        rpm) ;;
        static) need xz xz-utils ;;
        *) say "unknown kind '$kind' (deb, rpm or static)"; exit 2 ;;
    esac
done
mkdir -p "$out"
rm -f "$out"/*.deb "$out"/*.rpm "$out"/*.tar.xz "$out/made-of"
programs=${PAGEWELL_PACKAGE_PROGRAMS:-$build/$host/packaged}
[ -n "${PAGEWELL_PACKAGE_PROGRAMS:-}" ] || compile "$host" pagewell pagewell-bench
prepare
for kind in "$@"; do
    "make_$kind"
done
shopt -s nullglob
(cd "$out" && sha256sum -- *.deb *.rpm *.tar.xz | tee SHA256SUMS)
# Of what: for scripts/package-check.sh.
[ -n "${PAGEWELL_PACKAGE_PROGRAMS:-}$(git status --porcelain --untracked-files=no)" ] || echo "$(git rev-parse HEAD) $*" >"$out/made-of"
