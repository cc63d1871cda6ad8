//! Memory for replies that have not left, and the bound on it.
//!
//! Problem: a listing is answered with a hundred times the bytes of the question, and a client
//! that asks and never reads leaves the answers in the server. Rule: what a reply may take is
//! charged when its call goes to the pool, what it has taken until it has left. A connection that
//! is charged for [`CONNECTION_BYTES_MAX`] is not read from. When all together are charged for
//! [`BYTES_MAX`], a connection is read from only if it has less than [`SHARE_BYTES`], and
//! listings get shorter pages the nearer that is ([`Unsent::page_bytes`]): so a client that reads
//! its replies goes on being served.
//!
//! ```text
//!   a page may have  256 KiB ────────────────╮
//!                                             ╲
//!                     16 KiB                   ╰─────────
//!                            0        14 MiB    16 MiB     charged to all
//! ```
//!
//! So there are never more than 16 MiB, a page of each thread that was at work when they were
//! full, and 16 KiB and a page of that size for each connection.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_counters::names;

/// Bytes of replies of one connection; above this it is not read.
pub const CONNECTION_BYTES_MAX: usize = 1 << 20;

/// The same of all connections together; above this each may only have [`SHARE_BYTES`].
pub const BYTES_MAX: usize = 16 << 20;

/// What a connection may have when all together have too much.
pub const SHARE_BYTES: usize = 16 << 10;

/// The shortest page of a listing: some hundred names with attributes.
const PAGE_BYTES_MIN: usize = 16 << 10;

/// A page may have this part of what is left.
const PARTS: usize = 8;

/// Bytes that all connections of a server are charged for.
#[derive(Debug, Default)]
pub struct Unsent(AtomicUsize);

impl Unsent {
    /// Charges more.
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

    /// Whether all together have too much.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= BYTES_MAX
    }

    /// What one connection may be charged for now.
    pub fn connection_bytes_max(&self) -> usize {
        if self.is_over() {
            SHARE_BYTES
        } else {
            CONNECTION_BYTES_MAX
        }
    }

    /// How long a page of a listing may be that could have `wanted` bytes.
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
