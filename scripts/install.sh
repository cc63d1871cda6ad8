#!/usr/bin/env bash
# usage: scripts/install.sh PREFIX      installs what `make build` made below PREFIX
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:?usage: scripts/install.sh PREFIX}
program=${CARGO_TARGET_DIR:-target}/release/pagewell

install -D -m 755 "$program" "$prefix/bin/pagewell"
completion() { # SHELL FILE
    mkdir -p "$(dirname "$prefix/share/$2")"
    "$program" completions "$1" >"$prefix/share/$2"
}
completion bash bash-completion/completions/pagewell
completion zsh zsh/site-functions/_pagewell
completion fish fish/vendor_completions.d/pagewell.fish
"$program" man "$prefix/share/man/man1"
echo "installed $prefix/bin/pagewell, its manual pages and completions"
