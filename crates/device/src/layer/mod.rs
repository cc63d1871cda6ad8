//! Devices that stand in front of another one: they break it, slow it down or count.

mod delay;
mod fault;
mod stats;

pub use delay::{Delay, DelayAmount};
pub use fault::{Fault, FaultHandle, Script, ScriptError};
pub use stats::{Flow, Iostat, SizeHistogram, Snapshot, Stats};
