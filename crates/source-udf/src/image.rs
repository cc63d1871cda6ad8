//! The image, and the list of what is wrong in it, if one is kept.

use std::fmt::Display;
use std::sync::Arc;

use pagewell_fs::{Error, Result};
use pagewell_source_bytes::{Bytes, Violations};

use super::tag::{self, Tag, TagFault};

pub(crate) struct Image {
    bytes: Bytes,
    violations: Option<Arc<Violations>>,
}

impl Image {
    pub(crate) fn new(bytes: Bytes, violations: Option<Arc<Violations>>) -> Self {
        Self { bytes, violations }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn length_bytes(&self) -> u64 {
        self.bytes.length_bytes()
    }

    /// Reads structure of the image, not file data; an error past its end.
    pub(crate) fn read(&self, position: u64, target: &mut [u8], may_block: bool) -> Result<()> {
        if !self.bytes.contains(position, target.len() as u64) {
            return Err(self.fault(position, "past the end of the image"));
        }
        self.bytes.read(position, target, may_block)
    }

    pub(crate) fn fault(&self, position: u64, what: &str) -> Error {
        self.bytes.fault(position, what)
    }

    pub(crate) fn is_checked(&self) -> bool {
        self.violations.is_some()
    }

    pub(crate) fn note(&self, position: u64, clause: &'static str, text: impl Display) {
        if let Some(violations) = &self.violations {
            violations.note(position, clause, text);
        }
    }

    /// The tag of the descriptor in `bytes`, from `position`, block `block` as its writer counts.
    /// Faults are noted.
    pub(crate) fn descriptor(
        &self,
        bytes: &[u8],
        position: u64,
        block: u32,
    ) -> Result<Tag, TagFault> {
        let tag = tag::whole(bytes);
        match tag {
            Ok(tag) if tag.location != block => {
                let told = tag.location;
                let text = format_args!("descriptor of block {block} says that it is at {told}");
                self.note(position, tag::CLAUSE, text);
            }
            Ok(_) | Err(TagFault::Unrecorded) => {}
            Err(fault) => self.note(position, tag::CLAUSE, fault),
        }
        tag
    }
}
