//! The bound on memory for unsent replies.
//!
//! A listing is a hundred times its call, so a client that never reads fills the server. A reply's
//! longest size is charged when its call goes to the pool, its real size until it has left. A
//! connection with [`CONNECTION_BYTES_MAX`] is not read; with [`BYTES_MAX`] in all, only those
//! below [`SHARE_BYTES`] are, and listings shorten their pages as that comes near
//! ([`Unsent::page_bytes`]).
//!
//! ```text
//!   a page may have  256 KiB ────────────────╮
//!                                             ╲
//!                     16 KiB                   ╰─────────
//!                            0        14 MiB    16 MiB     charged to all
//! ```
//!
//! So the maximum is 16 MiB, a page of each thread then at work, and for each connection 16 KiB and
//! a page of that size.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_counters::names;

/// Of a connection; above this it is not read.
pub const CONNECTION_BYTES_MAX: usize = 1 << 20;

/// In all; above this each connection has [`SHARE_BYTES`].
pub const BYTES_MAX: usize = 16 << 20;

/// Of a connection while the total is exceeded.
pub const SHARE_BYTES: usize = 16 << 10;

/// Of a listing: some hundred names with attributes.
const PAGE_BYTES_MIN: usize = 16 << 10;

/// A page gets this part of the remaining bytes.
const PARTS: usize = 8;

/// Of a server.
#[derive(Debug, Default)]
pub struct Unsent(AtomicUsize);

impl Unsent {
    /// Charges `bytes`.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::SeqCst);
        names::UNSENT_REPLY_BYTES.add(signed(bytes));
    }

    /// Takes a charge back.
    pub fn subtract(&self, bytes: usize) {
        let before = self.0.fetch_sub(bytes, Ordering::SeqCst);
        assert!(
            bytes <= before,
            "{bytes} bytes of replies have left, of {before}"
        );
        names::UNSENT_REPLY_BYTES.add(-signed(bytes));
    }

    /// Whether the total is exceeded.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= BYTES_MAX
    }

    /// The current bound of one connection.
    pub fn connection_bytes_max(&self) -> usize {
        if self.is_over() {
            SHARE_BYTES
        } else {
            CONNECTION_BYTES_MAX
        }
    }

    /// Of a listing that could have `wanted` bytes.
    pub fn page_bytes(&self, wanted: usize) -> usize {
        let left = BYTES_MAX.saturating_sub(self.0.load(Ordering::SeqCst));
        wanted.min((left / PARTS).max(PAGE_BYTES_MIN))
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_get_shorter_the_less_is_left() {
        let unsent = Unsent::default();
        assert_eq!(unsent.page_bytes(256 << 10), 256 << 10);
        unsent.add(BYTES_MAX - (1 << 20));
        assert_eq!(unsent.page_bytes(256 << 10), 128 << 10);
        assert_eq!(unsent.page_bytes(4096), 4096);
        assert!(!unsent.is_over());
        unsent.add(2 << 20);
        assert!(unsent.is_over());
        assert_eq!(unsent.page_bytes(256 << 10), PAGE_BYTES_MIN);
        assert_eq!(unsent.connection_bytes_max(), SHARE_BYTES);
        unsent.subtract(BYTES_MAX);
        assert_eq!(unsent.connection_bytes_max(), CONNECTION_BYTES_MAX);
    }
}
