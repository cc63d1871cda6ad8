//! Pagewell: bench.
