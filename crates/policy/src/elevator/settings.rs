//! Settings for kinds of devices.
//!
//! | constant | value | reason |
//! |---|---|---|
//! | read deadline | 500 ms | what mq-deadline keeps |
//! | write deadline | 5 s | no caller waits for write-back, but memory is held |
//! | synchronous read | 10/10 | the class table of the ZFS device queue |
//! | asynchronous read | 1/3 | long transfers need little depth |
//! | asynchronous write | 2/10 | never stops, never takes over |
//! | flash | all of them x 4 | many channels, no seeks |
//! | read gap | 32 KiB, flash 0 | less than 1 ms of transfer on a disk, much less than a seek |

use std::time::Duration;

use super::{Class, Depth, Order, Settings};

/// See [`Settings::read_deadline`].
pub const READ_DEADLINE: Duration = Duration::from_millis(500);
/// See [`Settings::write_deadline`].
pub const WRITE_DEADLINE: Duration = Duration::from_secs(5);
/// Widest hole to read over on rotating media.
pub const ROTATING_READ_GAP_BYTES_MAX: u64 = 32 << 10;
/// Dispatches at a rotating device (native command queueing).
pub const ROTATING_DEPTH_MAX: u32 = 32;
/// Dispatches at a flash device.
pub const FLASH_DEPTH_MAX: u32 = 64;
/// How much deeper than on a disk classes go on flash.
pub const FLASH_DEPTH_FACTOR: u32 = 4;

const DEPTHS: [Depth; Class::ALL.len()] = [depth(10, 10), depth(1, 3), depth(2, 10)];
const MINIMUM_SUM: u32 = DEPTHS[0].minimum + DEPTHS[1].minimum + DEPTHS[2].minimum;

const _: () = assert!(MINIMUM_SUM <= ROTATING_DEPTH_MAX);
const _: () = assert!(MINIMUM_SUM * FLASH_DEPTH_FACTOR <= FLASH_DEPTH_MAX);

const fn depth(minimum: u32, maximum: u32) -> Depth {
    Depth { minimum, maximum }
}

impl Settings {
    /// For disks and optical media.
    #[must_use]
    pub fn rotating(transfer_bytes_max: u64) -> Self {
        Self {
            order: Order::CircularLook,
            merge: true,
            transfer_bytes_max,
            read_gap_bytes_max: ROTATING_READ_GAP_BYTES_MAX,
            read_deadline: Some(READ_DEADLINE),
            write_deadline: Some(WRITE_DEADLINE),
            depths: DEPTHS,
            depth_max: ROTATING_DEPTH_MAX,
        }
    }

    /// For devices without seeks.
    #[must_use]
    pub fn flash(transfer_bytes_max: u64) -> Self {
        let deeper = |Depth { minimum, maximum }| {
            depth(minimum * FLASH_DEPTH_FACTOR, maximum * FLASH_DEPTH_FACTOR)
        };
        Self {
            order: Order::Arrival,
            read_gap_bytes_max: 0,
            depths: DEPTHS.map(deeper),
            depth_max: FLASH_DEPTH_MAX,
            ..Self::rotating(transfer_bytes_max)
        }
    }

    /// A baseline: one at a time, in order of arrival.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            merge: false,
            read_deadline: None,
            write_deadline: None,
            depths: [depth(0, 1); Class::ALL.len()],
            depth_max: 1,
            ..Self::flash(u64::MAX)
        }
    }

    /// The widest hole; none is written over.
    pub(super) fn gap_bytes_max(&self, is_write: bool) -> u64 {
        if is_write { 0 } else { self.read_gap_bytes_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_documented_ones() {
        let rotating = Settings::rotating(1 << 20);
        assert_eq!(rotating.read_deadline, Some(Duration::from_millis(500)));
        assert_eq!(rotating.write_deadline, Some(Duration::from_millis(5000)));
        assert_eq!(rotating.read_gap_bytes_max, 32 * 1024);
        let [synchronous_read, asynchronous_read, asynchronous_write] = rotating.depths;
        assert_eq!(synchronous_read, depth(10, 10));
        assert_eq!(asynchronous_read, depth(1, 3));
        assert_eq!(asynchronous_write, depth(2, 10));
        let flash = Settings::flash(1 << 20);
        assert_eq!(flash.read_gap_bytes_max, 0);
        assert_eq!(flash.depths, [depth(40, 40), depth(4, 12), depth(8, 40)]);
        assert_eq!(Settings::plain().depth_max, 1);
    }
}
