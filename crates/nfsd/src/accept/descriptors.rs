//! How many connections the limit of open files allows.
//!
//! The soft limit is 1,024 on most systems for the sake of programs that use select(2), and may be
//! raised without privilege up to the hard one. Connections have a quarter of what there is: half
//! may be taken by objects of directories that are held open, the rest is for files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections have one of so many descriptors.
const PARTS: usize = 4;

/// However few descriptors there are.
const CONNECTIONS_MIN: usize = 8;

/// Raises the soft limit if it must be; returns how many of `wanted` connections there may be.
#[must_use]
pub fn connections_max(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let enough = u64::try_from(wanted.saturating_mul(PARTS)).unwrap_or(u64::MAX);
    let target = enough.min(limit.maximum.unwrap_or(enough));
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < target {
        let raised = Rlimit {
            current: Some(target),
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            current = target;
        }
    }
    let part = usize::try_from(current).unwrap_or(usize::MAX) / PARTS;
    wanted.min(part.max(CONNECTIONS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_descriptors_is_for_connections() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let most = usize::try_from(hard).unwrap_or(usize::MAX);
        assert_eq!(connections_max(3), 3);
        assert!(connections_max(usize::MAX) <= most / PARTS);
        let current = getrlimit(Resource::Nofile).current;
        assert!(current.is_none_or(|current| current >= 12), "{current:?}");
    }
}
