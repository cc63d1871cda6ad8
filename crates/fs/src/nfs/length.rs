//! How long a file is, and whether everything of it is at the server.
//!
//! Two lengths: that of the server, which decides what must be asked for at all, and the end of
//! what was written here and is not at the server yet. What programs see is the larger.

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Length {
    /// As the server knows it.
    server: u64,
    /// End of what was written here since everything was at the server.
    unwritten_end: u64,
    /// Local writes, and that number when everything was at the server.
    writes: u64,
    clean_at: u64,
}

impl Length {
    /// As programs see it.
    pub(super) fn get(&self) -> u64 {
        self.server.max(self.unwritten_end)
    }

    /// As the server knows it.
    pub(super) fn at_server(&self) -> u64 {
        self.server
    }

    /// The server has told it.
    pub(super) fn told(&mut self, size: u64) {
        self.server = size;
    }

    /// The server has taken bytes up to here, and told no attributes.
    pub(super) fn grew(&mut self, end: u64) {
        self.server = self.server.max(end);
    }

    /// Bytes up to here were written into the cache.
    pub(super) fn wrote(&mut self, end: u64) {
        self.writes += 1;
        self.unwritten_end = self.unwritten_end.max(end);
    }

    /// Whether something may not be at the server yet.
    pub(super) fn is_dirty(&self) -> bool {
        self.writes != self.clean_at
    }

    /// To be given to [`Self::cleaned`] when what is dirty now is at the server.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Everything of before is at the server.
    pub(super) fn cleaned(&mut self, writes: u64) {
        if self.writes == writes {
            self.clean_at = writes;
            self.unwritten_end = 0;
        }
    }

    /// It was set at the server.
    pub(super) fn cut(&mut self, size: u64) {
        self.server = size;
        self.unwritten_end = 0;
    }
}
