#!/usr/bin/env bash
# usage: scripts/fuzz.sh [--address] SECONDS
#
# Gives every fuzz target SECONDS of random input. The same targets run a fixed number of inputs
# in each `cargo test`.
#
# With --address all of it is built with checks of addresses (AddressSanitizer), dependencies too,
# below ${CARGO_TARGET_DIR:-target}/address; images with flipped bytes are read besides. It needs a
# nightly toolchain (rustup toolchain install nightly), and takes three times as long for an input.
set -euo pipefail
cd "$(dirname "$0")/.."
usage='usage: scripts/fuzz.sh [--address] SECONDS'
address=no
[ "${1-}" != --address ] || { address=yes; shift; }
seconds=${1:?$usage}
case $seconds in *[!0-9]*) echo "fuzz: '$seconds' is not a number of seconds" >&2; exit 2 ;; esac

export BOLERO_RANDOM_TEST_TIME_MS=$((seconds * 1000)) BOLERO_RANDOM_ITERATIONS=1000000000000
if [ "$address" = yes ]; then
    export RUSTFLAGS="${RUSTFLAGS-} -Zsanitizer=address"
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/address"
    # With a target of its own what runs in the compiler is built without the checks.
    host=$(rustc +nightly -vV | sed -n 's/^host: //p')
    fuzz() { cargo +nightly test --release --target "$host" "$@"; }
    export FLIPPED_IMAGES=${FLIPPED_IMAGES:-10000}
    export PAGEWELL_DAMAGED_IMAGES=${PAGEWELL_DAMAGED_IMAGES:-2500}
    fuzz -p pagewell-source-iso --test flipped
    fuzz -p pagewell-disc --test damaged
else
    fuzz() { cargo test --release "$@"; }
fi
fuzz -p pagewell-sunrpc --test messages fuzz:: -- --test-threads=1
fuzz -p pagewell-source-iso --test fuzz --test fuzz_contents -- --test-threads=1
fuzz -p pagewell-source-udf --test fuzz -- --test-threads=1
fuzz -p pagewell-container any_bytes -- --test-threads=1
fuzz -p pagewell-policy --test elevator any_input -- --test-threads=1
fuzz -p pagewell-policy --test readahead_fuzz -- --test-threads=1
fuzz -p pagewell-policy --test writeback any_events -- --test-threads=1
fuzz -p pagewell-object-client --lib any_ -- --test-threads=1
fuzz -p pagewell-staging --lib any_ -- --test-threads=1
