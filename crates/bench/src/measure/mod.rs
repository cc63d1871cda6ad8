//! What a run is judged by.

mod environment;
mod latency;
mod process;

pub use environment::Environment;
pub use latency::{Latency, Quantiles};
pub use process::{ProcessSample, ProcessUse};
