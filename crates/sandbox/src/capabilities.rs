//! Capabilities: what is left of root.
//!
//! Dropped capabilities leave every set of the calling thread, so that no child regains them. The
//! bounding set needs `CAP_SETPCAP`; without it `no_new_privs` does the same.

use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::path::Path;

use crate::{Access, Part};

/// Returns how many are left.
pub(crate) fn keep(wanted: CapabilitySet) -> (Part, i64) {
    match give_up(wanted) {
        Ok(kept) => (Part::Holds, number(kept)),
        Err(errno) => {
            let lack = format!("capabilities are all kept ({errno})");
            (Part::Missing(lack), count())
        }
    }
}

/// Of the calling thread.
#[must_use]
pub fn count() -> i64 {
    thread::capabilities(None).map_or(0, |sets| number(sets.permitted))
}

fn number(set: CapabilitySet) -> i64 {
    i64::from(set.bits().count_ones())
}

fn give_up(wanted: CapabilitySet) -> Result<CapabilitySet, Errno> {
    let sets = thread::capabilities(None)?;
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(wanted).iter() {
            match thread::remove_capability_from_bounding_set(capability) {
                // This kernel does not know it.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    match thread::clear_ambient_capability_set() {
        // Before Linux 4.3.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => return Err(errno),
    }
    let kept = sets.permitted.intersection(wanted);
    let left = CapabilitySets {
        effective: sets.effective.intersection(wanted),
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    // The service manager's filter may refuse the call to a service without capabilities.
    if left != sets {
        thread::set_capabilities(None, left)?;
    }
    Ok(kept)
}

/// Whether the user may do this without any capability; true for a missing path.
#[must_use]
pub fn are_needless_for(path: &Path, access: Access) -> bool {
    let Ok(sets) = thread::capabilities(None) else {
        return false;
    };
    let without = CapabilitySets {
        effective: CapabilitySet::empty(),
        ..sets
    };
    if thread::set_capabilities(None, without).is_err() {
        return false;
    }
    let (read, write) = (fs::Access::READ_OK, fs::Access::WRITE_OK);
    let wanted = match access {
        Access::Read => read,
        Access::Write => read | write,
        Access::Files | Access::Sockets => write,
    };
    let may = fs::accessat(fs::CWD, path, wanted, AtFlags::EACCESS);
    let is_back = thread::set_capabilities(None, sets).is_ok();
    is_back && matches!(may, Ok(()) | Err(Errno::NOENT | Errno::NOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn what_is_not_kept_is_gone_from_every_set_and_for_threads_of_the_thread() {
        std::thread::spawn(|| {
            let before = thread::capabilities(None).unwrap();
            let wanted = CapabilitySet::CHOWN.union(CapabilitySet::FOWNER);
            let (part, kept) = keep(wanted);
            assert_eq!(part, Part::Holds);
            let is = move || {
                let sets = thread::capabilities(None).unwrap();
                assert_eq!(sets.permitted, before.permitted.intersection(wanted));
                assert!(wanted.contains(sets.effective) && sets.inheritable.is_empty());
                assert_eq!(count(), kept);
            };
            is();
            std::thread::spawn(is).join().unwrap();
            if before.effective.contains(CapabilitySet::SETPCAP) {
                let bound = thread::capability_is_in_bounding_set(CapabilitySet::SYS_ADMIN);
                assert!(!bound.unwrap());
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_file_of_another_user_needs_capabilities() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        assert!(are_needless_for(&path, Access::Write));
        assert!(are_needless_for(&folder.path().join("none"), Access::Write));
        let sets = thread::capabilities(None).unwrap();
        if !sets.effective.contains(CapabilitySet::CHOWN) {
            return;
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        chown(&path, Some(65_534), Some(65_534)).unwrap();
        assert!(!are_needless_for(&path, Access::Read));
        assert_eq!(thread::capabilities(None).unwrap(), sets);
    }
}
