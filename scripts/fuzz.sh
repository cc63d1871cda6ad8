#!/usr/bin/env bash
# usage: scripts/fuzz.sh SECONDS [CRATE...]
#
# Gives every fuzz target (a test whose name begins with fuzz_) SECONDS of random input. The
# same targets run for a moment in each `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/fuzz.sh SECONDS [CRATE...]}
shift
packages=()
for name in "$@"; do packages+=(-p "$name"); done
[ ${#packages[@]} -gt 0 ] || packages=(--workspace)

export BOLERO_RANDOM_TEST_TIME_MS=$((seconds * 1000)) BOLERO_RANDOM_ITERATIONS=1000000000
cargo test --release "${packages[@]}" fuzz_ -- --test-threads=1
