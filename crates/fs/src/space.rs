//! Where a file has data, and where it has space.

/// What a file is searched for (lseek(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Bytes that were written.
    Data,
    /// None.
    Hole,
}

/// What is done with a range of a file, instead of writing to it (fallocate(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Space is allocated for it, so that writes to it find some. What is there stays. The file
    /// gets as long as the range reaches.
    Reserve,
    /// The same, and the file stays as long as it is.
    ReserveOnly,
    /// It becomes a hole; the file stays as long as it is.
    Punch,
    /// It reads as zeros, and space is allocated for it. The file gets as long as the range
    /// reaches.
    Zero,
    /// The same, and the file stays as long as it is.
    ZeroOnly,
}
