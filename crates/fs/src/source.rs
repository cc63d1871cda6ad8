//! Why a source could not be opened.

use pagewell_base::line::one_line;

/// One line with the source and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}: {reason}")]
pub struct OpenError {
    source_name: String,
    reason: String,
    kind: Kind,
}

/// What a caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    InUse,
    NoExport,
    Other,
}

impl OpenError {
    /// Escapes control characters in both texts.
    #[must_use]
    pub fn new(name: &str, reason: &str) -> Self {
        Self {
            source_name: one_line(name),
            reason: one_line(reason),
            kind: Kind::Other,
        }
    }

    /// Of a source that its server does not export.
    #[must_use]
    pub fn no_export(name: &str, reason: &str) -> Self {
        Self {
            kind: Kind::NoExport,
            ..Self::new(name, reason)
        }
    }

    /// Whether its server does not export it, or refuses it.
    #[must_use]
    pub fn is_no_export(&self) -> bool {
        self.kind == Kind::NoExport
    }

    /// Whether another program writes to it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.kind == Kind::InUse
    }

    /// Of a source that another program writes to.
    #[must_use]
    pub fn in_use(name: &str) -> Self {
        Self {
            kind: Kind::InUse,
            ..Self::new(
                name,
                "in use: another program writes to it, or it is mounted",
            )
        }
    }
}
