//! Pagewell: sunrpc.
pub mod record;
