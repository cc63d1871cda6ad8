//! Frames: the memory for pages, and which of it is free.

pub(crate) mod arena;
pub(crate) mod free_list;
