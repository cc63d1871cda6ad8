//! What all listings of a file system take together.
//!
//! Beyond [`BYTES_MAX`] the listings to which no page came for the longest time are forgotten, and
//! asked for again when they are read.

use std::sync::{Arc, Weak};

use pagewell_base::sync::Mutex;

use super::directory::Directory;
use super::node::Node;

pub(super) const BYTES_MAX: usize = 128 << 20;
/// Directories that are counted before a sweep for those that are gone.
const COUNTED_MIN: usize = 65_536;

pub(super) struct Listings {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listed: Vec<Weak<Node>>,
    /// What they take, or took before they were dropped.
    bytes: usize,
    /// Directories at which those that are gone are left out.
    sweep_at: usize,
}

impl Listings {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            state: Mutex::default(),
        }
    }

    /// Counts a directory whose listing may have changed, and forgets others where there is no room
    /// for it.
    pub(super) fn count(&self, node: &Arc<Node>) {
        let Some((before, now)) = node.directory().map(Directory::count_bytes) else {
            return;
        };
        if before == now {
            return;
        }
        let mut state = self.state.lock();
        state.bytes = (state.bytes + now).saturating_sub(before);
        if before == 0 {
            state.listed.push(Arc::downgrade(node));
        }
        if state.bytes > self.bytes_max || state.listed.len() > state.sweep_at.max(COUNTED_MIN) {
            let nodes = state.sweep(node, self.bytes_max);
            drop(state);
            // The last reference may be here: not under the lock.
            drop(nodes);
        }
    }
}

impl State {
    /// Counts again, and forgets the oldest listings but that of `used`. Returns what it looked at.
    fn sweep(&mut self, used: &Arc<Node>, bytes_max: usize) -> Vec<Arc<Node>> {
        let mut nodes: Vec<_> = self.listed.iter().filter_map(Weak::upgrade).collect();
        nodes.sort_by_cached_key(|node| node.directory().and_then(Directory::grown_at));
        self.listed.clear();
        self.bytes = nodes
            .iter()
            .filter_map(|node| node.directory())
            .map(Directory::counted_bytes)
            .sum();
        // Some room at once: the next sweep is not the next call.
        let wanted = bytes_max / 4 * 3;
        let is_full = self.bytes > bytes_max;
        for node in &nodes {
            if let Some(directory) = node.directory()
                && is_full
                && self.bytes > wanted
                && !Arc::ptr_eq(node, used)
            {
                self.bytes = self.bytes.saturating_sub(directory.forget());
            } else {
                self.listed.push(Arc::downgrade(node));
            }
        }
        self.sweep_at = 2 * self.listed.len();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use pagewell_fs::Error;
    use pagewell_object_client::{
        Activity, Error as RemoteError, ListPage, ListQuery, ObjectInfo, Remote, Result, Sink,
        Version, WritableRemote,
    };

    use super::super::directory::Asked;
    use super::super::identifier::{Kind, Turn, hash_of};
    use super::*;

    /// Every directory has a thousand prefixes, but for one that is silent.
    #[derive(Default)]
    struct Names(AtomicU64);

    impl Remote for Names {
        fn describe(&self) -> String {
            String::new()
        }

        fn head(&self, _key: &str) -> Result<ObjectInfo> {
            Err(RemoteError::NotFound)
        }

        fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if query.prefix == "silent/" {
                return Err(RemoteError::Unreachable("silent".to_owned()));
            }
            let prefixes = (0..1000).map(|number| format!("{}{number}/", query.prefix));
            Ok(ListPage {
                prefixes: prefixes.collect(),
                ..ListPage::default()
            })
        }

        fn fetch(&self, _key: &str, _version: &Version, _range: Range<u64>, sink: Box<dyn Sink>) {
            sink.end(Err(RemoteError::NotFound));
        }

        fn as_writable(&self) -> Option<&dyn WritableRemote> {
            None
        }

        fn activity(&self) -> Activity {
            Activity::default()
        }
    }

    fn directory(key: &str) -> Arc<Node> {
        Arc::new(Node::new(
            Kind::Directory,
            (hash_of(key), Turn::default()),
            key,
            None,
        ))
    }

    fn asked<'a>(remote: &'a Names, key: &'a str) -> Asked<'a> {
        Asked {
            remote,
            key,
            is_root: false,
            age: Duration::from_secs(3600),
            since: Instant::now(),
            may_block: true,
        }
    }

    #[test]
    fn all_listings_together_have_a_bound_and_the_newest_stays() {
        let remote = Names::default();
        let bytes_max = 4 << 20;
        let listings = Listings::new(bytes_max);
        let keys: Vec<_> = (0..200).map(|number| format!("d{number}/")).collect();
        let nodes: Vec<_> = keys.iter().map(|key| directory(key)).collect();
        let is_kept = |node: &Arc<Node>| node.directory().unwrap().listed_at().is_some();
        for node in &nodes {
            let asked = asked(&remote, node.key());
            node.directory().unwrap().find(asked, b"7").unwrap();
            listings.count(node);
            assert!(is_kept(node));
            let bytes = nodes
                .iter()
                .map(|node| node.directory().unwrap().counted_bytes());
            assert!(bytes.sum::<usize>() <= bytes_max);
        }
        let kept = nodes.iter().filter(|node| is_kept(node)).count();
        assert!((5..100).contains(&kept), "{kept}");
        assert!(!is_kept(&nodes[0]));
        // Those that are gone leave their room.
        drop(nodes);
        let last = directory("last/");
        let found = last
            .directory()
            .unwrap()
            .find(asked(&remote, "last/"), b"7");
        found.unwrap();
        listings.count(&last);
        assert!(is_kept(&last));
    }

    #[test]
    fn calls_that_wait_for_a_silent_server_together_fail_together() {
        let remote = Names::default();
        let node = directory("silent/");
        let directory = node.directory().unwrap();
        let began = asked(&remote, "silent/");
        for name in [b"a", b"b"] {
            let found = directory.find(began, name);
            assert_eq!(found.unwrap_err(), Error::Io("silent".to_owned()));
            assert_eq!(remote.0.load(Ordering::Relaxed), 1);
        }
        // A call that begins later asks again.
        assert!(directory.find(asked(&remote, "silent/"), b"a").is_err());
        assert_eq!(remote.0.load(Ordering::Relaxed), 2);
    }
}
