//! What devices made of other devices have in common.

use std::sync::Arc;

use crate::{Device, Geometry};

/// Why devices cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CombineError {
    /// There are none, or too many.
    #[error("{device}: {count} devices: 1 to {COUNT_MAX} are possible")]
    Count {
        /// The name of what was to be made.
        device: String,
        /// How many there were.
        count: usize,
    },
    /// The chunk is zero or holds no whole number of blocks.
    #[error("{device}: chunks of {chunk_bytes} bytes hold no whole number of {block_bytes}")]
    Chunk {
        /// The name of what was to be made.
        device: String,
        /// What was asked for.
        chunk_bytes: u64,
        /// The largest block of the devices.
        block_bytes: u32,
    },
    /// The smallest device does not hold one chunk, or all together hold too many bytes.
    #[error("{device}: the smallest device has {length_bytes} bytes")]
    Length {
        /// The name of what was to be made.
        device: String,
        /// Of the smallest.
        length_bytes: u64,
    },
    /// The devices end in the middle of a block and do not agree how long a block is.
    #[error("{device}: {length_bytes} bytes are no whole number of {block_bytes}")]
    Tail {
        /// The name of what was to be made.
        device: String,
        /// Their length.
        length_bytes: u64,
        /// The largest of their blocks.
        block_bytes: u32,
    },
    /// The devices have to be equally long and are not.
    #[error("{device}: {other} has {other_bytes} bytes, not {length_bytes}")]
    Unequal {
        /// The name of what was to be made.
        device: String,
        /// The name of the one that differs from the first.
        other: String,
        /// Its length.
        other_bytes: u64,
        /// The length of the first.
        length_bytes: u64,
    },
}

/// Devices of one stripe or mirror.
pub(crate) const COUNT_MAX: usize = 64;

/// Refuses a number of devices that is not 1 to [`COUNT_MAX`].
pub(crate) fn check_count(device: &str, count: usize) -> Result<(), CombineError> {
    if (1..=COUNT_MAX).contains(&count) {
        return Ok(());
    }
    Err(CombineError::Count {
        device: device.to_owned(),
        count,
    })
}

/// What suits all of the devices: the largest alignments, the smallest transfer, all queues.
pub(crate) fn geometry_of(children: &[Arc<dyn Device>]) -> Geometry {
    let mut all = Geometry {
        queue_depth: 0,
        ..Geometry::MEMORY
    };
    for child in children {
        let one = child.geometry();
        all.logical_block_bytes = all.logical_block_bytes.max(one.logical_block_bytes);
        all.memory_alignment_bytes = all.memory_alignment_bytes.max(one.memory_alignment_bytes);
        all.transfer_bytes_max = all.transfer_bytes_max.min(one.transfer_bytes_max);
        all.rotational |= one.rotational;
        all.queue_depth = all.queue_depth.saturating_add(one.queue_depth);
    }
    all
}
