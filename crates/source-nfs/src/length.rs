//! How long a file is, and whether everything of it is safe at the server.
//!
//! **Problem.** A server that crashes forgets what was written and not committed. Its file is
//! shorter then, until that is written once more. A program that is told that length appends in the
//! middle of what it has written before.
//!
//! **Rule.** There are two lengths: that of the server, which decides what must be asked for at
//! all, and the end of what was written here since everything was committed. What programs see is
//! the larger.
//!
//! ```text
//!   written here            ├──────── uncommitted_end
//!   WRITE is answered       ├──────── the server's, too        not dirty any more
//!   the server crashes      ├──       the server's, in doubt
//!   COMMIT, WRITE, COMMIT   ├──────── the server's alone
//! ```
//!
//! A server whose file is shorter than what it has taken has forgotten it, or another client has
//! cut the file off. A commit tells: what was forgotten is written again, and afterwards the
//! server's length is the truth in both cases.

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Length {
    /// As the server knows it.
    server: u64,
    /// End of what was written here since everything was committed.
    uncommitted_end: u64,
    /// Local writes, and that number when everything was at the server.
    writes: u64,
    clean_at: u64,
}

impl Length {
    /// As programs see it.
    pub(super) fn get(&self) -> u64 {
        self.server.max(self.uncommitted_end)
    }

    /// As the server knows it.
    pub(super) fn at_server(&self) -> u64 {
        self.server
    }

    /// The server has reported it.
    pub(super) fn reported(&mut self, size: u64) {
        self.server = size;
    }

    /// The server has taken bytes up to here, and reported no attributes.
    pub(super) fn grew(&mut self, end: u64) {
        self.server = self.server.max(end);
    }

    /// Bytes up to here were written into the cache.
    pub(super) fn wrote(&mut self, end: u64) {
        self.writes += 1;
        self.uncommitted_end = self.uncommitted_end.max(end);
    }

    /// Whether something may not be at the server yet.
    pub(super) fn is_dirty(&self) -> bool {
        self.writes != self.clean_at
    }

    /// Whether something may not be safe at the server yet.
    pub(super) fn is_uncommitted(&self) -> bool {
        self.is_dirty() || self.uncommitted_end > 0
    }

    /// Whether the server's file is shorter than what it has taken.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.is_dirty() && self.server < self.uncommitted_end
    }

    /// To be given to [`Self::cleaned`] and [`Self::committed`] when what was written until now is
    /// there.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Everything of before is at the server.
    pub(super) fn cleaned(&mut self, writes: u64) {
        if self.writes == writes {
            self.clean_at = writes;
        }
    }

    /// Everything of before is safe at the server, or nobody's any more.
    pub(super) fn committed(&mut self, writes: u64) {
        self.cleaned(writes);
        if self.writes == writes {
            self.uncommitted_end = 0;
        }
    }

    /// It was set at the server. What is behind it does not come back.
    pub(super) fn cut(&mut self, size: u64) {
        self.server = size;
        self.uncommitted_end = self.uncommitted_end.min(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a file that had ten bytes, and got a hundred that are at the server.
    fn written() -> Length {
        let mut length = Length::default();
        length.reported(10);
        assert!(!length.is_uncommitted() && !length.is_in_doubt());
        length.wrote(100);
        assert!(length.is_dirty() && length.is_uncommitted());
        assert_eq!((length.get(), length.at_server()), (100, 10));
        assert!(!length.is_in_doubt(), "it was not written yet");
        length.reported(100);
        length.cleaned(length.writes());
        assert!(!length.is_dirty() && length.is_uncommitted() && !length.is_in_doubt());
        length
    }

    #[test]
    fn what_a_server_forgets_is_as_long_as_before() {
        let mut length = written();
        length.reported(10);
        assert!(length.is_in_doubt());
        assert_eq!(length.get(), 100);
        length.reported(100);
        length.committed(length.writes());
        assert!(!length.is_uncommitted() && !length.is_in_doubt());
        length.reported(10);
        assert_eq!(length.get(), 10, "another client has cut it off");
        assert!(!length.is_in_doubt());
    }

    #[test]
    fn what_was_written_meanwhile_is_not_committed() {
        let mut length = written();
        let writes = length.writes();
        length.wrote(50);
        length.committed(writes);
        assert!(length.is_dirty() && length.is_uncommitted());
        length.reported(20);
        assert_eq!(length.get(), 100);
    }

    #[test]
    fn what_is_cut_off_does_not_come_back() {
        for (size, seen) in [(0, 0), (40, 40), (400, 400)] {
            let mut length = written();
            length.cut(size);
            assert_eq!((length.get(), length.at_server()), (seen, size));
            length.reported(10);
            assert_eq!(length.get(), seen.clamp(10, 100), "forgotten after {size}");
        }
    }
}
