//! Pagewell: sunrpc.
