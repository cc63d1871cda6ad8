//! Extended attributes (xattr(7)), and the checks that sources share.
//!
//! The beginning of a name decides, whatever the mode: `trusted.` is hidden from all but the
//! superuser, who alone may change `security.`.

use std::ffi::{CStr, CString};

use crate::{Call, Error, FileId, Result};

/// Name and value.
pub type ExtendedAttribute = (CString, Vec<u8>);

/// The extended attributes of objects.
pub trait ExtendedAttributes: Send + Sync {
    /// A value; [`Error::NoData`]: there is none.
    fn get(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<Vec<u8>>;

    /// The names that the caller may see, each with a NUL behind it.
    fn names(&self, call: &Call<'_>, id: &FileId) -> Result<Vec<u8>>;

    /// Sets an attribute, as setxattr(2) does; [`Error::TooBig`] above [`VALUE_BYTES_MAX`].
    fn set(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _name: &CStr,
        _value: &[u8],
        _presence: Presence,
    ) -> Result<()> {
        Err(Error::ReadOnly)
    }

    /// Removes an attribute; [`Error::NoData`]: there is none.
    fn remove(&self, _call: &Call<'_>, _id: &FileId, _name: &CStr) -> Result<()> {
        Err(Error::ReadOnly)
    }

    /// All that the caller may see.
    fn all(&self, call: &Call<'_>, id: &FileId) -> Result<Vec<ExtendedAttribute>> {
        let names = self.names(call, id)?;
        let names = names.split_inclusive(|byte| *byte == 0);
        let mut all = Vec::new();
        for name in names.filter_map(|name| CStr::from_bytes_with_nul(name).ok()) {
            match self.get(call, id, name) {
                Ok(value) => all.push((name.to_owned(), value)),
                Err(Error::NoData) => {} // removed meanwhile
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

/// Longest name (`XATTR_NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;
/// Longest value, and all names of an object (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// For the superuser alone.
pub const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";

/// A condition for setting an attribute (setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// None.
    Any,
    /// It does not exist, else [`Error::Exists`].
    Absent,
    /// It exists, else [`Error::NoData`].
    Present,
}

/// Refuses bad names, and names not for the user `uid`.
pub fn check(name: &CStr, uid: u32, changes: bool) -> Result<()> {
    let name = name.to_bytes();
    Error::Invalid.when(name.is_empty() || name.len() > NAME_BYTES_MAX)?;
    let is_closed = name.starts_with(TRUSTED) || changes && name.starts_with(SECURITY);
    let is_open = uid == 0 || !is_closed;
    match (is_open, changes) {
        (true, _) => Ok(()),
        (false, true) => Err(Error::NotPermitted),
        (false, false) => Err(Error::NoData),
    }
}

/// Whether the user `uid` may see a name.
#[must_use]
pub fn is_shown(name: &[u8], uid: u32) -> bool {
    uid == 0 || !name.starts_with(TRUSTED)
}

/// Refuses a value too long.
pub fn check_value(value: &[u8]) -> Result<()> {
    Error::TooBig.unless(value.len() <= VALUE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_the_superuser_is_for_nobody_else() {
        for (name, read, change) in [
            (c"user.a", Ok(()), Ok(())),
            (c"trusted.a", Err(Error::NoData), Err(Error::NotPermitted)),
            (c"security.capability", Ok(()), Err(Error::NotPermitted)),
            (c"system.posix_acl_access", Ok(()), Ok(())),
            (c"", Err(Error::Invalid), Err(Error::Invalid)),
        ] {
            assert_eq!(check(name, 7, false), read, "{name:?}");
            assert_eq!(check(name, 7, true), change, "{name:?}");
            if !name.is_empty() {
                assert_eq!(check(name, 0, true), Ok(()), "{name:?}");
            }
        }
        assert!(!is_shown(b"trusted.a", 7) && is_shown(b"trusted.a", 0));
        assert!(is_shown(b"user.trusted.", 7));
        let long = std::ffi::CString::new([b'a'; 256]).unwrap();
        assert_eq!(check(&long, 0, false), Err(Error::Invalid));
        assert_eq!(check_value(&[0; VALUE_BYTES_MAX + 1]), Err(Error::TooBig));
    }
}
