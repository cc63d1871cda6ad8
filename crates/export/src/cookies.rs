//! Directory cookies below 2^31 for clients whose file offsets have 32 bits.
//!
//! File systems give 63-bit cookies (ext4: a hash of the name); a 32-bit client cuts them and lists
//! a directory without end. So each listed directory of such an export has a table that numbers its
//! cookies in the order of their first use.
//!
//! Weaknesses: the tables are bounded ([`COOKIES_MAX`]) and do not survive a restart; without one a
//! client gets BAD_COOKIE and lists again. A directory with more names than the bound cannot be
//! listed to its end.

use std::collections::HashMap;

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, FileId, Result};

/// Of an export: 64 MiB at most.
const COOKIES_MAX: usize = 1 << 20;

/// The overhead of a table, in cookies.
const TABLE_COOKIES: usize = 16;

/// Of an export.
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
    /// The number of a cookie; never 0. Fails when the directory alone exceeds the bound.
    pub fn narrow(&self, directory: &FileId, cookie: u64) -> Result<u64> {
        let mut state = self.state.lock();
        state.clock += 1;
        let clock = state.clock;
        if !state.directories.contains_key(directory) {
            state.cookies += TABLE_COOKIES;
        }
        let table = state.directories.entry(*directory).or_default();
        table.used_at = clock;
        if let Some(number) = table.narrow.get(&cookie) {
            return Ok(u64::from(*number));
        }
        if table.wide.len() >= COOKIES_MAX {
            return Err(Error::Io(format!(
                "a directory of more than {COOKIES_MAX} names cannot be listed with 32-bit cookies"
            )));
        }
        table.wide.push(cookie);
        #[allow(clippy::cast_possible_truncation)] // bounded by COOKIES_MAX
        let number = table.wide.len() as u32;
        table.narrow.insert(cookie, number);
        state.cookies += 1;
        state.forget(directory);
        Ok(u64::from(number))
    }

    /// `None` when the table is gone.
    pub fn widen(&self, directory: &FileId, number: u64) -> Option<u64> {
        let mut state = self.state.lock();
        if number == 0 {
            state.renew(directory);
            return Some(0);
        }
        let index = usize::try_from(number - 1).ok()?;
        state.directories.get(directory)?.wide.get(index).copied()
    }
}

impl State {
    /// Drops the least recently used tables, except this directory's.
    fn forget(&mut self, keep: &FileId) {
        while self.cookies > COOKIES_MAX {
            let others = self.directories.iter().filter(|(id, _)| *id != keep);
            let oldest = others.min_by_key(|(_, table)| table.used_at);
            let Some(oldest) = oldest.map(|(id, _)| *id) else {
                return; // one directory has no more than that
            };
            self.remove(&oldest);
        }
    }

    /// At the start of a listing: a full table may number names that are gone.
    fn renew(&mut self, directory: &FileId) {
        let table = self.directories.get(directory);
        if table.is_some_and(|table| table.wide.len() >= COOKIES_MAX) {
            self.remove(directory);
        }
    }

    fn remove(&mut self, directory: &FileId) {
        let gone = self.directories.remove(directory);
        self.cookies -= gone.map_or(0, |table| table.wide.len() + TABLE_COOKIES);
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
            let number = cookies.narrow(&directory, *cookie).unwrap();
            assert!(number > 0 && number < 1 << 31);
            assert_eq!(cookies.narrow(&directory, *cookie), Ok(number), "stable");
            assert_eq!(cookies.widen(&directory, number), Some(*cookie));
        }
        assert_eq!(cookies.widen(&directory, 0), Some(0));
        assert_eq!(cookies.widen(&directory, 1000), None);
        assert_eq!(cookies.widen(&FileId::new(b"e").unwrap(), 1), None);
    }

    #[test]
    fn numbers_are_never_given_twice_in_one_listing() {
        let cookies = NarrowCookies::default();
        let (small, large) = (FileId::new(b"s").unwrap(), FileId::new(b"l").unwrap());
        assert_eq!(cookies.narrow(&small, 77), Ok(1));
        let most = COOKIES_MAX as u64;
        for cookie in 1..=most {
            assert_eq!(cookies.narrow(&large, cookie << 32), Ok(cookie));
        }
        assert!(cookies.narrow(&large, (most + 1) << 32).is_err());
        assert_eq!(cookies.widen(&large, most), Some(most << 32), "still there");
        assert_eq!(
            cookies.widen(&small, 1),
            None,
            "forgotten for the large one"
        );
        assert_eq!(cookies.widen(&large, 0), Some(0));
        assert_eq!(cookies.narrow(&large, 5), Ok(1), "anew, from the start");
    }

    #[test]
    fn tables_of_many_small_directories_are_bounded_too() {
        let cookies = NarrowCookies::default();
        let most = COOKIES_MAX / (TABLE_COOKIES + 1);
        for number in 0..most as u64 + 10 {
            let directory = FileId::new(&number.to_be_bytes()).unwrap();
            cookies.narrow(&directory, 1).unwrap();
        }
        assert!(cookies.state.lock().directories.len() <= most);
    }
}
