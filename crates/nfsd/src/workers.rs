//! Threads that may wait.

pub mod pool;
mod turns;
