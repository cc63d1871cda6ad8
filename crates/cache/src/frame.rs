//! Frames: the memory for pages, which of it is free, and how it is mapped.

pub(crate) mod arena;
pub(crate) mod free_list;
pub(crate) mod window;
