//! How a directory stands: what is remembered of it is right as long as this has not changed.

/// A directory as it is now: its number, and how often others have changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) directory: u64,
    pub(super) changes: u64,
}

/// Stays the same as long as nobody has changed a directory, and we have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// How often others have changed it.
    pub(super) changes: u64,
    /// Changes of ours, begun or ended.
    pub(super) own_changes: u64,
}

impl Stamp {
    /// What it is when a change of ours has begun, or ended, and nothing else has happened.
    pub(super) fn next(self) -> Self {
        Self {
            own_changes: self.own_changes + 1,
            ..self
        }
    }

    /// Whether nothing of ours has happened since `begun` but the end of what began then.
    pub(super) fn ends_alone(self, begun: Self) -> bool {
        self.own_changes == begun.next().own_changes
    }
}
