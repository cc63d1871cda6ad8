//! What opening a file tells a front, and how long a front may keep what it was told.

use std::time::Duration;

use crate::{Attributes, OpenFile};

/// Keeps an object there, also without a name, until it is dropped.
pub type Hold = Box<dyn Send + Sync>;

/// An open file.
pub struct Opened {
    /// Its attributes, asked for anew where others may have changed them.
    pub attributes: Attributes,
    /// Whether data that a front kept from an earlier open is still right.
    pub keep_cache: bool,
    /// The file itself, where it is one of this machine: a front may have the kernel read and
    /// write it without asking again.
    pub file: Option<OpenFile>,
    /// Keeps the object there, also without a name, until it is dropped.
    pub hold: Option<Hold>,
}

impl Opened {
    /// A file of a source that needs to know nothing of opening, and that nobody else changes.
    #[must_use]
    pub fn plain(attributes: Attributes) -> Self {
        Self {
            attributes,
            keep_cache: true,
            file: None,
            hold: None,
        }
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Opened")
            .field("attributes", &self.attributes)
            .field("keep_cache", &self.keep_cache)
            .field("file", &self.file)
            .field("is_held", &self.hold.is_some())
            .finish()
    }
}

/// How long a front may keep what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coherence {
    /// Attributes.
    pub attributes: Duration,
    /// What a name means.
    pub names: Duration,
    /// That a name means nothing.
    pub missing_names: Duration,
}

impl Coherence {
    /// Nothing is kept: others change the source in ways that it cannot see.
    pub const NONE: Self = Self::same(Duration::ZERO);

    /// Nothing changes but through the front itself: as good as for ever.
    pub const UNCHANGED: Self = Self::same(Duration::from_secs(24 * 60 * 60));

    /// Everything is kept so long.
    #[must_use]
    pub const fn same(time: Duration) -> Self {
        Self {
            attributes: time,
            names: time,
            missing_names: time,
        }
    }
}
