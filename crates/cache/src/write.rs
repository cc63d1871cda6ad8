//! Writing: bytes into pages, and copy-on-write of pages that are pinned.

pub(crate) mod copy_on_write;
pub(crate) mod writer;
