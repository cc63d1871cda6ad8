//! The page table: from the name of a page to its frame, with pins.

pub(crate) mod lines;
pub(crate) mod locality;
#[cfg(all(test, feature = "loom"))]
mod orders;
pub(crate) mod page_table;
#[cfg(test)]
mod tests;
