//! Names of directory entries: any bytes but `/` and NUL, 1 to 255 of them.

use crate::{Error, Result};

/// The longest name, as on every Linux file system.
pub const NAME_BYTES_MAX: usize = 255;

/// Refuses an invalid name: empty, over [`NAME_BYTES_MAX`], or with `/` or NUL in it. `.` and `..`
/// pass, as a lookup may ask for them.
pub fn check(name: &[u8]) -> Result<()> {
    Error::NameTooLong.when(name.len() > NAME_BYTES_MAX)?;
    Error::Invalid.when(name.is_empty() || name.contains(&b'/') || name.contains(&0))?;
    Ok(())
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// [`check`] for a new name: `.` and `..` exist already.
pub fn check_new(name: &[u8]) -> Result<()> {
    check(name)?;
    Error::Exists.when(is_dots(name))
}

/// [`check`] for a name to remove or move: `.` and `..` cannot be.
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
