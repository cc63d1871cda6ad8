//! What a run is judged by.

mod counting;
mod environment;
mod interval;
mod latency;
mod peak;
mod process;
mod spread;
mod system_calls;
mod usage;

pub use counting::Counting;
pub use environment::Environment;
pub use interval::{Difference, Interval, difference};
pub use latency::{Latency, Quantiles};
pub use peak::PeakMemory;
pub use process::{ProcessSample, ProcessUse};
pub use spread::{Case, Movement, RUNS_MIN, movements};
pub use system_calls::SystemCalls;
pub use usage::{Usage, UsageSample};
