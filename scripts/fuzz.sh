#!/usr/bin/env bash
# usage: scripts/fuzz.sh SECONDS
#
# Gives every fuzz target SECONDS of random input. The same targets run a fixed number of inputs
# in each `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/fuzz.sh SECONDS}
case $seconds in *[!0-9]*) echo "fuzz: '$seconds' is not a number of seconds" >&2; exit 2 ;; esac

export BOLERO_RANDOM_TEST_TIME_MS=$((seconds * 1000)) BOLERO_RANDOM_ITERATIONS=1000000000000
cargo test --release -p pagewell-sunrpc --test messages fuzz:: -- --test-threads=1
cargo test --release -p pagewell-source-iso --test fuzz --test fuzz_contents -- --test-threads=1
cargo test --release -p pagewell-source-udf --test fuzz -- --test-threads=1
cargo test --release -p pagewell-container any_bytes -- --test-threads=1
cargo test --release -p pagewell-policy --test elevator any_input -- --test-threads=1
cargo test --release -p pagewell-policy --test readahead_fuzz -- --test-threads=1
cargo test --release -p pagewell-policy --test writeback any_events -- --test-threads=1
cargo test --release -p pagewell-object-client --lib any_ -- --test-threads=1
cargo test --release -p pagewell-staging --lib any_ -- --test-threads=1
