//! Memory registered with a ring.
//!
//! The kernel looks up and pins the pages of ordinary memory for every direct transfer, those of
//! registered memory once. A transfer uses it when all its segments lie in one *region*: a single
//! one by `READ_FIXED`, several by `READV_FIXED` (Linux 6.15).
//!
//! When the kernel refuses (limit of locked memory), all transfers are plain, with a warning.

use std::sync::Once;

use io_uring::types::Fd;
use io_uring::{Probe, Submitter, opcode, squeue};

use super::{Vector, flags};
use crate::file::transfer::Call;
use crate::warning::warn_once;
use crate::{Memory, Segment};

/// The kernel's limit of one region.
const REGION_BYTES_MAX: usize = 1 << 30;
/// Regions of a ring, for 256 GiB. Each costs the kernel a pointer.
const REGIONS_MAX: u16 = 256;

pub(super) struct Fixed {
    regions: Vec<Region>,
    table: Table,
    /// The kernel has `READV_FIXED` and `WRITEV_FIXED`.
    vectored: bool,
}

#[derive(PartialEq, Eq)]
enum Table {
    Missing,
    Ready,
    Refused,
}

struct Region {
    start: usize,
    end: usize,
    index: u16,
    /// Keeps the memory mapped: the kernel would still write to the pinned pages if other memory
    /// came to this address.
    _memory: Memory,
}

impl Fixed {
    pub(super) fn new(probe: &Probe) -> Self {
        let vectored = [opcode::ReadvFixed::CODE, opcode::WritevFixed::CODE];
        Self {
            regions: Vec::new(),
            table: Table::Missing,
            vectored: vectored.iter().all(|code| probe.is_supported(*code)),
        }
    }

    pub(super) fn register(&mut self, submitter: &Submitter<'_>, memory: &Memory, device: &str) {
        if self.table == Table::Refused {
            return;
        }
        if let Err(error) = self.try_register(submitter, memory) {
            static ONCE: Once = Once::new();
            let bytes = memory.segment().len();
            let text = format!("{device}: {bytes} bytes of memory are not registered: {error}");
            warn_once(&ONCE, &text);
        }
    }

    fn try_register(&mut self, submitter: &Submitter<'_>, memory: &Memory) -> std::io::Result<()> {
        let mut rest = memory.segment();
        let first = rest.start().as_ptr() as usize;
        if self.regions.iter().any(|region| region.start == first) {
            // Another user of the device registered it.
            return Ok(());
        }
        if self.table == Table::Missing {
            self.table = Table::Refused;
            submitter.register_buffers_sparse(REGIONS_MAX.into())?;
            self.table = Table::Ready;
        }
        while !rest.is_empty() {
            let index = u16::try_from(self.regions.len()).unwrap_or(u16::MAX);
            if index >= REGIONS_MAX {
                return Err(std::io::ErrorKind::QuotaExceeded.into());
            }
            let (part, later) = rest.split_at(rest.len().min(REGION_BYTES_MAX));
            rest = later;
            let vector = Vector::from(&part).0;
            // SAFETY: mapped while the memory's keeper lives, which the region holds until `Fixed`
            // is dropped with the ring, after the last completion.
            unsafe { submitter.register_buffers_update(index.into(), &[vector], None)? };
            let start = part.start().as_ptr() as usize;
            self.regions.push(Region {
                start,
                end: start + part.len(),
                index,
                _memory: memory.clone(),
            });
        }
        Ok(())
    }

    /// The entry for a transfer within one region, if the kernel has such an operation.
    pub(super) fn entry(
        &self,
        call: Call,
        file: Fd,
        offset: u64,
        segments: &[Segment],
        vectors: &[Vector],
    ) -> Option<squeue::Entry> {
        let first = segments.first()?.start().as_ptr() as usize;
        let contains = |region: &&Region| region.start <= first && first < region.end;
        let region = self.regions.iter().find(contains)?;
        let inside = segments.iter().all(|segment| {
            let start = segment.start().as_ptr() as usize;
            region.start <= start && start + segment.len() <= region.end
        });
        if !inside || (vectors.len() > 1 && !self.vectored) {
            return None;
        }
        let index = region.index;
        let start = vectors.as_ptr().cast();
        let count = vectors.len() as u32; // at most VECTORS_MAX
        Some(match (call, vectors) {
            (Call::Read, [Vector(one)]) => {
                let length = one.iov_len as u32; // at most 1 GiB
                opcode::ReadFixed::new(file, one.iov_base.cast(), length, index)
                    .offset(offset)
                    .build()
            }
            (Call::Flush, _) => return None,
            (Call::Write | Call::DurableWrite, [Vector(one)]) => {
                let length = one.iov_len as u32; // at most 1 GiB
                opcode::WriteFixed::new(file, one.iov_base.cast(), length, index)
                    .offset(offset)
                    .rw_flags(flags(call))
                    .build()
            }
            (Call::Read, _) => opcode::ReadvFixed::new(file, start, count, index)
                .offset(offset)
                .build(),
            (Call::Write | Call::DurableWrite, _) => {
                opcode::WritevFixed::new(file, start, count, index)
                    .offset(offset)
                    .rw_flags(flags(call))
                    .build()
            }
        })
    }
}
