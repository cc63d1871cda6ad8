//! Names of directory entries: 1 to 255 bytes, any but `/` and NUL.

use crate::{Error, Result};

/// As on every Linux file system.
pub const NAME_BYTES_MAX: usize = 255;

/// Refuses an invalid name; `.` and `..` are valid.
pub fn check(name: &[u8]) -> Result<()> {
    Error::NameTooLong.when(name.len() > NAME_BYTES_MAX)?;
    Error::Invalid.when(name.is_empty() || name.contains(&b'/') || name.contains(&0))?;
    Ok(())
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// [`check`] for a new name; `.` and `..` exist.
pub fn check_new(name: &[u8]) -> Result<()> {
    check(name)?;
    Error::Exists.when(is_dots(name))
}

/// [`check`] for a name to remove or move; not `.` and `..`.
pub fn check_old(name: &[u8]) -> Result<()> {
    check(name)?;
    Error::Invalid.when(is_dots(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_any_bytes_but_slash_and_nul() {
        for bad in [&b""[..], b"/", b"a/b", b"a\0b"] {
            assert_eq!(check(bad), Err(Error::Invalid));
        }
        assert_eq!(check(&[b'a'; 255]), Ok(()));
        assert_eq!(check(&[b'a'; 256]), Err(Error::NameTooLong));
        assert_eq!(check(&[0xff, 0xfe]), Ok(()));
        assert_eq!(check(b".."), Ok(()));
        assert_eq!(check_new(b".."), Err(Error::Exists));
        assert_eq!(check_old(b"."), Err(Error::Invalid));
    }
}
