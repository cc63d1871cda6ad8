//! Devices that stand in front of another one, to test and to measure: they break it, slow it down,
//! count, or lose what was not made durable.

mod delay;
mod fault;
mod power_cut;
mod stats;

pub use delay::{Delay, DelayAmount};
pub use fault::{Fault, FaultHandle, Script, ScriptError};
pub use power_cut::{Damage, PowerCut, PowerCutHandle};
pub use stats::{Flow, Iostat, SizeHistogram, Snapshot, Stats};
