//! Directory entries as the kernel gives them.

use super::object::open_directory;
use super::system::{self, error_of};
use pagewell_fs::Result;
use std::os::fd::{AsFd, BorrowedFd};

/// Some 500 names, about a page of 64 KiB with attributes.
pub(super) const BUFFER_BYTES: usize = 16 * 1024;
/// Bytes of an entry before its name (`struct linux_dirent64`).
const HEADER_BYTES: usize = 19;

#[derive(Clone, Copy)]
pub(super) struct RawEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) inode: u64,
    /// The position behind it.
    pub(super) cookie: u64,
    /// A directory, or of unknown type.
    pub(super) may_be_directory: bool,
}

impl RawEntry<'_> {
    pub(super) fn is_dots(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// Returns where the next entry begins, too; `None` without a whole entry.
pub(super) fn parse(bytes: &[u8], at: usize) -> Option<(RawEntry<'_>, usize)> {
    let rest = bytes.get(at..)?;
    let number = |from: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(
            rest.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    let length = u16::from_ne_bytes(rest.get(16..18)?.try_into().ok()?);
    let kind = *rest.get(18)?;
    let name = rest.get(HEADER_BYTES..usize::from(length))?;
    let name = name.split(|byte| *byte == 0).next()?;
    let entry = RawEntry {
        name,
        inode: number(0)?,
        cookie: number(8)?,
        may_be_directory: kind == libc::DT_DIR || kind == libc::DT_UNKNOWN,
    };
    Some((entry, at + usize::from(length)))
}

pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = (RawEntry<'_>, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let parsed = parse(bytes, at)?;
        at = parsed.1;
        Some(parsed)
    })
}

/// In the kernel's layout, without padding.
pub(super) fn append(bytes: &mut Vec<u8>, entry: &RawEntry<'_>) {
    let length = HEADER_BYTES + entry.name.len() + 1;
    bytes.extend(entry.inode.to_ne_bytes());
    bytes.extend(entry.cookie.to_ne_bytes());
    bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    let kind = if entry.may_be_directory {
        libc::DT_UNKNOWN
    } else {
        libc::DT_REG
    };
    bytes.push(kind);
    bytes.extend(entry.name);
    bytes.push(0);
}

pub(super) fn each_entry(
    directory: BorrowedFd<'_>,
    visit: &mut dyn FnMut(&RawEntry<'_>) -> bool,
) -> Result<()> {
    let mut bytes = Vec::with_capacity(BUFFER_BYTES);
    while system::read_entries(directory, &mut bytes).map_err(error_of)? {
        if !entries(&bytes).all(|(entry, _)| visit(&entry)) {
            return Ok(());
        }
        bytes.clear();
    }
    Ok(())
}

/// Whether the kernel's positions can be cookies: none is 0, and neighbours differ.
pub(super) fn cookies_are_sound(bytes: &[u8]) -> bool {
    let mut previous = 0;
    entries(bytes).all(|(entry, _)| {
        let before = std::mem::replace(&mut previous, entry.cookie);
        entry.cookie != 0 && entry.cookie != before
    })
}

pub(super) fn gives_cookies(directory: BorrowedFd<'_>) -> Result<bool> {
    let opened = open_directory(directory)?;
    let mut bytes = Vec::with_capacity(BUFFER_BYTES);
    system::read_entries(opened.as_fd(), &mut bytes).map_err(error_of)?;
    Ok(cookies_are_sound(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(cookies: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for cookie in cookies {
            append(
                &mut bytes,
                &RawEntry {
                    name: b"name",
                    inode: 7,
                    cookie: *cookie,
                    may_be_directory: false,
                },
            );
        }
        bytes
    }

    #[test]
    fn entries_are_parsed_and_cut_ones_are_not() {
        let bytes = chunk(&[5, 6]);
        let (first, next) = parse(&bytes, 0).unwrap();
        assert_eq!(
            (first.name, first.inode, first.cookie),
            (&b"name"[..], 7, 5)
        );
        let (second, end) = parse(&bytes, next).unwrap();
        assert_eq!((second.cookie, end), (6, bytes.len()));
        for cut in next..bytes.len() {
            assert!(parse(&bytes[..cut], next).is_none(), "{cut}");
        }
        // a length that does not even cover the header ends the chunk
        let mut bad = chunk(&[5]);
        bad[16..18].copy_from_slice(&3u16.to_ne_bytes());
        assert!(parse(&bad, 0).is_none());
    }

    #[test]
    fn cookies_must_differ_and_not_be_zero() {
        assert!(cookies_are_sound(&chunk(&[3, 9, 4])));
        assert!(!cookies_are_sound(&chunk(&[3, 0])));
        assert!(!cookies_are_sound(&chunk(&[3, 3])));
        assert!(cookies_are_sound(&[]));
    }
}
