//! An image that is only looked at.

/// Fills the target from a position on.
type ReadAt<'a, E> = &'a dyn Fn(u64, &mut [u8]) -> Result<(), E>;

/// On a device or in the cache; reading fails with `E`.
pub struct Readable<'a, E> {
    /// Length.
    pub length_bytes: u64,
    /// Reads inside.
    pub read: ReadAt<'a, E>,
}

impl<E> Readable<'_, E> {
    /// Reads; false: the image is too short.
    pub fn read_if_there(&self, position: u64, target: &mut [u8]) -> Result<bool, E> {
        let end = position.checked_add(target.len() as u64);
        if end.is_none_or(|end| end > self.length_bytes) {
            return Ok(false);
        }
        (self.read)(position, target).map(|()| true)
    }
}
