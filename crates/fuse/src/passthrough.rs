//! Files that the kernel reads and writes itself ("passthrough", Linux 6.9, needs root).
//!
//! Problem: bytes of a local file through this program would be copied and kept twice.
//!
//! Rule: an open registers the source's open file with the kernel, and all opens of this file share
//! the registration, as the kernel requires. It refuses to mix such opens with ordinary ones, so
//! the first open decides the kind of those that come while it lasts.
//!
//! After a first failure for lack of rights or support the mount does not register again, and
//! counts it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use fuser::BackingId;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use rustix::thread::CapabilitySet;

#[derive(Default)]
pub(crate) struct Passthrough(Mutex<State>);

#[derive(Default)]
struct State {
    /// The kernel supports it, and has not refused for good.
    is_possible: bool,
    open: HashMap<u64, Kind>,
}

struct Kind {
    opens: usize,
    /// `None`: bytes go through this program.
    backing: Option<Arc<BackingId>>,
}

pub(crate) struct Pass {
    passthrough: Arc<Passthrough>,
    node: u64,
    backing: Option<Arc<BackingId>>,
}

impl Pass {
    pub(crate) fn backing(&self) -> Option<Arc<BackingId>> {
        self.backing.clone()
    }
}

impl Passthrough {
    pub(crate) fn allow(&self) {
        self.0.lock().is_possible = true;
    }

    /// Opens a node; `register` registers its `file`, if it has one, with the kernel.
    pub(crate) fn open(
        self: &Arc<Self>,
        node: u64,
        file: Option<BorrowedFd<'_>>,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Option<Pass> {
        let mut guard = self.0.lock();
        let State { is_possible, open } = &mut *guard;
        if !*is_possible && open.is_empty() {
            return None;
        }
        let kind = open.entry(node).or_insert_with(|| {
            let file = file.filter(|_| *is_possible);
            let registered = file.map(|file| without_privileges(|| register(file)));
            if let Some(Err(error)) = &registered {
                names::FUSE_PASSTHROUGH_REFUSED.add(1);
                let for_good = [libc::EPERM, libc::ENOTTY, libc::ELOOP, libc::EOPNOTSUPP];
                let code = error.raw_os_error();
                *is_possible = !code.is_some_and(|code| for_good.contains(&code));
            }
            let backing = registered.and_then(Result::ok).map(Arc::new);
            Kind { opens: 0, backing }
        });
        kind.opens += 1;
        let backing = kind.backing.clone();
        drop(guard);
        if backing.is_some() {
            names::FUSE_PASSTHROUGH_OPENS.add(1);
        }
        Some(Pass {
            passthrough: Arc::clone(self),
            node,
            backing,
        })
    }
}

/// A user that is not root, whether it exists or not.
const NOBODY: u32 = 65_534;

/// The kernel writes to a registered file with the rights of the thread that registered it,
/// whichever program writes. `CAP_FSETID` must not be among them: without it the file system
/// beneath takes set-user-id and set-group-id. Nor `CAP_SYS_RESOURCE`, which exceeds quotas, and
/// root's user, for which a file system keeps blocks.
fn without_privileges<T>(register: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let before = rustix::thread::capabilities(None)?;
    let mut fewer = before;
    fewer.effective &= !(CapabilitySet::FSETID | CapabilitySet::SYS_RESOURCE);
    rustix::thread::set_capabilities(None, fewer)?;
    // SAFETY: takes a number, touches no memory.
    let user = unsafe { libc::setfsuid(NOBODY) };
    let registered = register();
    // SAFETY: as above. The kernel gives back what the user's number took away; all that there was
    // is set thereafter.
    unsafe { libc::setfsuid(user.cast_unsigned()) };
    rustix::thread::set_capabilities(None, before)?;
    registered
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.passthrough.0.lock();
        if let Entry::Occupied(mut kind) = state.open.entry(self.node) {
            kind.get_mut().opens -= 1;
            if kind.get().opens == 0 {
                kind.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_that_cannot_be_registered_is_opened_as_ever_and_not_tried_again() {
        let passthrough = Arc::new(Passthrough::default());
        let file = std::fs::File::open("/dev/null").unwrap();
        let refuse = |_: BorrowedFd<'_>| Err(std::io::Error::from_raw_os_error(libc::EPERM));
        assert!(passthrough.open(7, Some(file.as_fd()), refuse).is_none());
        passthrough.allow();
        let first = passthrough.open(7, Some(file.as_fd()), refuse).unwrap();
        assert!(first.backing.is_none());
        let never = |_: BorrowedFd<'_>| unreachable!("not tried again");
        let second = passthrough.open(7, Some(file.as_fd()), never).unwrap();
        assert!(second.backing.is_none());
        drop(first);
        assert_eq!(passthrough.0.lock().open.len(), 1);
        drop(second);
        assert!(passthrough.0.lock().open.is_empty());
        assert!(passthrough.open(8, Some(file.as_fd()), never).is_none());
    }

    #[test]
    fn what_is_registered_has_no_rights_of_root_and_the_thread_keeps_its_own() {
        let mine = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = |name: &str| {
                let found = status.lines().find(|line| line.starts_with(name));
                found.unwrap().to_owned()
            };
            (line("Uid:"), line("CapEff:"))
        };
        let before = mine();
        without_privileges(|| {
            let rights = rustix::thread::capabilities(None)?.effective;
            assert!(!rights.intersects(CapabilitySet::FSETID | CapabilitySet::SYS_RESOURCE));
            if before.0 == "Uid:\t0\t0\t0\t0" {
                assert_eq!(mine().0, "Uid:\t0\t0\t0\t65534");
                let was_there = before.1.trim_end().ends_with("ffffffff");
                assert!(!was_there || rights.contains(CapabilitySet::SYS_ADMIN));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(mine(), before);
    }
}
