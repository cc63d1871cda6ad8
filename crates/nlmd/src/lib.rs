//! Network file locks: NLM version 4 and its status monitor (NSM).

pub mod locks;
pub mod program;
