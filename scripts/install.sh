#!/usr/bin/env bash
# usage: scripts/install.sh [--remove] PREFIX
#
# Installs what `make build` made below PREFIX: the programs without their symbols, manual pages and
# shell completions. With --remove they are taken away again, and nothing else is.
set -euo pipefail
cd "$(dirname "$0")/.."

remove=no
if [ "${1:-}" = --remove ]; then
    remove=yes
    shift
fi
prefix=${1:?usage: scripts/install.sh [--remove] PREFIX}
program=${CARGO_TARGET_DIR:-target}/release/pagewell
bench=$program-bench
bash=share/bash-completion/completions/pagewell
zsh=share/zsh/site-functions/_pagewell
fish=share/fish/vendor_completions.d/pagewell.fish

if [ "$remove" = yes ]; then
    rm -f "$prefix/bin/pagewell" "$prefix/bin/pagewell-bench" \
        "$prefix/sbin/mount.pagewell" "$prefix/sbin/mount.fuse.pagewell" \
        "$prefix/$bash" "$prefix/$zsh" "$prefix/$fish" \
        "$prefix"/share/man/man1/pagewell.1 "$prefix"/share/man/man1/pagewell-*.1 \
        "$prefix/share/man/man7/pagewell-sources.7"
    echo "removed $prefix/bin/pagewell, its manual pages and completions"
    exit
fi

# Symbols are four fifths of the file, and only a debugger wants them.
install -D -s -m 755 "$program" "$prefix/bin/pagewell"
install -D -s -m 755 "$bench" "$prefix/bin/pagewell-bench"
# By these names mount(8) calls it, for fstab and systemd, where it looks: /sbin.
mkdir -p "$prefix/sbin"
ln -sf ../bin/pagewell "$prefix/sbin/mount.pagewell"
ln -sf ../bin/pagewell "$prefix/sbin/mount.fuse.pagewell"
completion() { # SHELL FILE
    mkdir -p "$(dirname "$prefix/$2")"
    "$program" completions "$1" >"$prefix/$2"
}
completion bash "$bash"
completion zsh "$zsh"
completion fish "$fish"
"$program" man "$prefix/share/man/man1"
"$bench" man "$prefix/share/man/man1"
echo "installed $prefix/bin/pagewell, its manual pages and completions"
