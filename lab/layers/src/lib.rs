//! Devices for tests and measurements. Most stand in front of another one: they break it, slow it
//! down as a disk or a DVD would, count, or lose what was not made durable. The bytes of one are
//! computed.

mod delay;
mod fault;
mod forward;
pub mod model;
mod pattern;
mod power_cut;
mod stats;

pub use delay::Delay;
pub use fault::{Fault, FaultHandle, Rule};
pub use model::Model;
pub use pattern::Pattern;
pub use power_cut::{Damage, PowerCut, PowerCutHandle};
pub use stats::{Flow, SizeHistogram, Snapshot, Stats};
