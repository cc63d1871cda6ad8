//! The trees that an image may have side by side.

use std::fmt;

/// Which of the trees in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TreeKind {
    /// ECMA-119 names, lower case.
    Plain = 0,
    /// The same tree with POSIX names and attributes.
    RockRidge = 1,
    /// The second tree, with Unicode names.
    Joliet = 2,
}

impl fmt::Display for TreeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain",
            Self::RockRidge => "Rock Ridge",
            Self::Joliet => "Joliet",
        })
    }
}
