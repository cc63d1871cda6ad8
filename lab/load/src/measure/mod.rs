//! The judgement of runs.

mod comparison;
mod counting;
mod environment;
mod figure;
mod interval;
mod latency;
mod median;
mod movement;
mod number;
mod peak;
mod row;
mod system_calls;
mod timeline;
mod usage;

pub use comparison::{Comparison, SCHEMA, compare_documents};
pub use counting::Counting;
pub use environment::{Environment, memory_bytes};
pub use figure::{Better, Figure};
pub use interval::{Difference, Interval, difference, moments};
pub use latency::{Latency, Quantiles};
pub use median::{Spread, median};
pub use movement::{Case, Movement, RUNS_MIN, movements};
pub use number::{Runs, mean, nearest, number};
pub use peak::PeakMemory;
pub(crate) use row::known;
pub use row::{DeviceUse, Mode, Phase, Reference, Row};
pub use system_calls::SystemCalls;
pub use timeline::Timeline;
pub use usage::Usage;
