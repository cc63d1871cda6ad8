//! The bytes of an identifier with a path hint: see [`super::path_hint`].
//!
//! One byte [`TAG`], the inode number, the birth time, and a hash of each directory above the
//! object, from the root down, as many as fit.

use super::ID_BYTES_MAX;
use super::status::Inode;
use pagewell_fs::{Error, FileId, Result};

/// First byte of an identifier of this kind.
pub(super) const TAG: u8 = 2;
/// Tag, inode number and birth time: what tells objects apart.
const KEY_BYTES: usize = 17;
/// What is left of an identifier for the path hint.
const HINT_BYTES_MAX: usize = ID_BYTES_MAX - KEY_BYTES;

/// One byte of a path hint: stands for the directory of this inode number.
pub(super) fn hash(inode: u64) -> u8 {
    // Fibonacci hashing: the top byte depends on all bits of the number
    (inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0]
}

/// The identifier of an object; a hint that is too long is cut.
pub(super) fn compose(inode: Inode, hint: &[u8]) -> FileId {
    let mut bytes = Vec::with_capacity(KEY_BYTES + hint.len());
    bytes.push(TAG);
    bytes.extend(inode.number.to_be_bytes());
    bytes.extend(inode.birth.to_be_bytes());
    bytes.extend(hint.iter().take(HINT_BYTES_MAX));
    FileId::new(&bytes).unwrap_or_else(|| unreachable!("{} bytes fit", bytes.len()))
}

/// The object and its path hint.
pub(super) fn parse(id: &FileId) -> Result<(Inode, &[u8])> {
    let bytes = id.as_bytes();
    let number = |from: usize| -> Option<u64> {
        Some(u64::from_be_bytes(
            bytes.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    match (bytes.first(), number(1), number(9), bytes.get(KEY_BYTES..)) {
        (Some(&TAG), Some(number), Some(birth), Some(hint)) => Ok((Inode { number, birth }, hint)),
        _ => Err(Error::BadId),
    }
}

/// What tells the object apart: the identifier without its path hint.
pub(super) fn key_of(id: &FileId) -> Result<FileId> {
    Ok(compose(parse(id)?.0, &[]))
}
