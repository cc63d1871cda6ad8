//! How long attributes are believed.
//!
//! **Problem.** Nobody tells a client of NFSv3 that a file has changed. Asking each time costs a
//! round trip for each look; never asking shows what is long gone.
//!
//! **Rule.** What was not changed for long is not likely to change now. Attributes are believed for
//! a tenth of the time since the last change of the data, but no shorter than a minimum and no
//! longer than a maximum, one pair for files and one for directories (as in all clients, whose
//! options `acregmin`, `acregmax`, `acdirmin` and `acdirmax` are these). An open asks anyway.
//!
//! ```text
//!   believed
//!   max  |            ________
//!        |          /
//!   min  |________/
//!        +------------------------ time since the last change
//!        0      10 min    10 max
//! ```
//!
//! **Known weakness.** The time since the change is the difference of two clocks, the client's and
//! the server's. One that is ahead shortens or lengthens ages, within the two bounds.

use std::time::Duration;

use pagewell_fs::{Attributes, Timestamp};

/// The part of the time since the last change: one in so many.
const PART: u32 = 10;

/// Bounds of ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Shortest for what is not a directory.
    pub file_min: Duration,
    /// Longest for what is not a directory.
    pub file_max: Duration,
    /// Shortest for directories.
    pub directory_min: Duration,
    /// Longest for directories.
    pub directory_max: Duration,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            file_min: Duration::from_secs(3),
            file_max: Duration::from_secs(60),
            directory_min: Duration::from_secs(30),
            directory_max: Duration::from_secs(60),
        }
    }
}

impl Ages {
    /// Nothing is believed: each look asks.
    pub const NONE: Self = Self {
        file_min: Duration::ZERO,
        file_max: Duration::ZERO,
        directory_min: Duration::ZERO,
        directory_max: Duration::ZERO,
    };

    /// Sets the bound that an option names; `actimeo` sets all four.
    pub(super) fn set(&mut self, key: &str, time: Duration) {
        match key {
            "acregmin" => self.file_min = time,
            "acregmax" => self.file_max = time,
            "acdirmin" => self.directory_min = time,
            "acdirmax" => self.directory_max = time,
            _ => {
                *self = Self {
                    file_min: time,
                    file_max: time,
                    directory_min: time,
                    directory_max: time,
                };
            }
        }
    }

    /// How long these attributes are believed that were true at `now`, by the client's clock.
    #[must_use]
    pub fn lifetime(&self, attributes: &Attributes, now: Timestamp) -> Duration {
        let (least, most) = if attributes.file_type.is_directory() {
            (self.directory_min, self.directory_max)
        } else {
            (self.file_min, self.file_max)
        };
        let unchanged = since(attributes.modified, now) / PART;
        unchanged.min(most).max(least)
    }
}

/// Time from `then` to `now`; none when `then` is in the future.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    let nanoseconds =
        |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let difference = nanoseconds(now) - nanoseconds(then);
    Duration::from_nanos(u64::try_from(difference.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::attributes;
    use pagewell_fs::FileType;

    fn lifetime(file_type: FileType, modified: i64) -> Duration {
        let now = Timestamp {
            seconds: 10_000,
            nanoseconds: 0,
        };
        let mut attributes = attributes(file_type);
        attributes.modified = Timestamp {
            seconds: modified,
            nanoseconds: 0,
        };
        Ages::default().lifetime(&attributes, now)
    }

    #[test]
    fn what_is_older_is_believed_longer_within_the_bounds() {
        for (modified, seconds) in [(9_999, 3), (9_900, 10), (9_500, 50), (0, 60), (20_000, 3)] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(
                lifetime(FileType::Regular, modified),
                expected,
                "{modified}"
            );
        }
        for (modified, seconds) in [(9_999, 30), (9_500, 50), (i64::MIN, 60), (i64::MAX, 30)] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(
                lifetime(FileType::Directory, modified),
                expected,
                "{modified}"
            );
        }
        let attributes = attributes(FileType::Regular);
        assert_eq!(
            Ages::NONE.lifetime(&attributes, Timestamp::now()),
            Duration::ZERO
        );
    }
}
