//! A [`FileId`] in less memory.
//!
//! That has room for 64 bytes. Those of most sources have 10 to 30, and tables hold one for each
//! object that the kernel knows.

use crate::FileId;

/// Longer ones take an allocation.
const INLINE_BYTES_MAX: usize = 30;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompactId(Kept);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kept {
    /// Length, bytes, and zeros behind them.
    Inline(u8, [u8; INLINE_BYTES_MAX]),
    Long(Box<FileId>),
}

impl CompactId {
    /// The same identifier.
    #[must_use]
    pub fn new(id: &FileId) -> Self {
        let bytes = id.as_bytes();
        let mut inline = [0; INLINE_BYTES_MAX];
        match (inline.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(bytes);
                Self(Kept::Inline(length, inline))
            }
            _ => Self(Kept::Long(Box::new(*id))),
        }
    }

    /// The identifier.
    #[must_use]
    pub fn whole(&self) -> FileId {
        match &self.0 {
            Kept::Inline(length, bytes) => FileId::of_inline(*length, bytes),
            Kept::Long(id) => **id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::FILE_ID_BYTES_MAX;

    #[test]
    fn identifiers_of_every_length_come_back_and_most_are_small() {
        assert_eq!(size_of::<CompactId>(), 32);
        let bytes: Vec<u8> = (1..).take(FILE_ID_BYTES_MAX).collect();
        for length in 0..=FILE_ID_BYTES_MAX {
            let id = FileId::new(&bytes[..length]).unwrap();
            let compact = CompactId::new(&id);
            assert_eq!(compact.whole(), id);
            assert_eq!(compact, CompactId::new(&id));
            let is_inline = matches!(compact.0, Kept::Inline(..));
            assert_eq!(is_inline, length <= INLINE_BYTES_MAX);
        }
    }
}
