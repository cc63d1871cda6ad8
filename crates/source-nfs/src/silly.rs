//! Removing what is still open.
//!
//! **Problem.** A program may remove a file that is open in this mount, and go on using it. After
//! REMOVE its handle is stale.
//!
//! **Rule.** The last name of an open file is not removed but renamed, to an unused one in the same
//! directory, which the last close removes, as by all clients: `.nfs`, the number of the file, and
//! a count, in hexadecimal.
//!
//! **Known weaknesses.** The directory cannot be removed while such a file is in it. When the
//! client dies, the file stays. A file that only another client has open is removed.

use std::sync::atomic::{AtomicU32, Ordering};

use pagewell_fs::{Credentials, FileId};

const PREFIX: &str = ".nfs";
/// Names that are tried.
pub(super) const ATTEMPTS_MAX: u32 = 16;

/// A name to be removed at the last close.
#[derive(Clone, Debug)]
pub(super) struct Silly {
    /// Where it is.
    pub directory: FileId,
    /// What it is called there.
    pub name: Vec<u8>,
    /// The user that it is removed for.
    pub credentials: Credentials,
}

/// The next name for the file of this number.
pub(super) fn next_name(file_id: u64) -> Vec<u8> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Other programs of this machine have counts of their own.
    let own = std::process::id().rotate_left(16) ^ COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{file_id:016x}{own:08x}").into_bytes()
}

/// Whether a name may be one of these.
pub(super) fn is_silly(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX.as_bytes())
        .is_some_and(|rest| rest.len() == 24 && rest.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_are_known() {
        let (one, other) = (next_name(7), next_name(7));
        assert_ne!(one, other);
        assert!(one.starts_with(b".nfs0000000000000007"));
        assert!(is_silly(&one) && is_silly(&other));
        assert!(!is_silly(b".nfs") && !is_silly(b".nfsmount.conf"));
    }
}
