//! Directory cookies below 2^31 for clients whose file offsets have 32 bits.
//!
//! File systems give 63-bit cookies (ext4: a hash of the name). An old client cuts them, lists a
//! directory twice or for ever. Rule: each directory that such an export lists gets a table that
//! numbers its cookies in the order in which they were first given; the numbers are what clients
//! see. The table is the price: it is bounded ([`COOKIES_MAX`] in all), the least recently used
//! directory goes first, and it does not survive a restart; a client that resumes after that is
//! told BAD_COOKIE and lists the directory from its start.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pagewell_fs::FileId;

/// Cookies remembered, all directories together: 32 MiB at most.
const COOKIES_MAX: usize = 1 << 20;

/// The tables of one export.
#[derive(Default)]
pub struct NarrowCookies {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    directories: HashMap<FileId, Table>,
    cookies: usize,
    clock: u64,
}

#[derive(Default)]
struct Table {
    wide: Vec<u64>,
    narrow: HashMap<u64, u32>,
    used_at: u64,
}

impl NarrowCookies {
    /// The number that clients see for a cookie of a directory; never 0.
    pub fn narrow(&self, directory: &FileId, cookie: u64) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let clock = state.clock;
        let table = state.directories.entry(*directory).or_default();
        table.used_at = clock;
        if let Some(number) = table.narrow.get(&cookie) {
            return u64::from(*number);
        }
        table.wide.push(cookie);
        #[allow(clippy::cast_possible_truncation)] // bounded by COOKIES_MAX
        let number = table.wide.len() as u32;
        table.narrow.insert(cookie, number);
        state.cookies += 1;
        state.forget(directory);
        u64::from(number)
    }

    /// The cookie behind a number; `None` when the table is gone.
    pub fn widen(&self, directory: &FileId, number: u64) -> Option<u64> {
        if number == 0 {
            return Some(0);
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let index = usize::try_from(number - 1).ok()?;
        state.directories.get(directory)?.wide.get(index).copied()
    }
}

impl State {
    fn forget(&mut self, keep: &FileId) {
        while self.cookies > COOKIES_MAX {
            let others = self.directories.iter().filter(|(id, _)| *id != keep);
            let oldest = others
                .min_by_key(|(_, table)| table.used_at)
                .map(|(id, _)| *id);
            // Only one directory is left and it alone is over the bound: it starts anew.
            let gone = self.directories.remove(&oldest.unwrap_or(*keep));
            self.cookies -= gone.map_or(0, |table| table.wide.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_unique_and_lead_back() {
        let cookies = NarrowCookies::default();
        let directory = FileId::new(b"d").unwrap();
        let wide: Vec<u64> = (1..1000u64).map(|index| index << 40).collect();
        for cookie in &wide {
            let number = cookies.narrow(&directory, *cookie);
            assert!(number > 0 && number < 1 << 31);
            assert_eq!(cookies.narrow(&directory, *cookie), number, "stable");
            assert_eq!(cookies.widen(&directory, number), Some(*cookie));
        }
        assert_eq!(cookies.widen(&directory, 0), Some(0));
        assert_eq!(cookies.widen(&directory, 1000), None);
        assert_eq!(cookies.widen(&FileId::new(b"e").unwrap(), 1), None);
    }
}
