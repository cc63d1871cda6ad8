//! Locks on files across the network: NLM version 4, and the status monitor (NSM) that goes with
//! it.

pub mod locks;
pub mod program;
