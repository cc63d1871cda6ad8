//! The known objects of a mount, and the server's answers about single ones.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pagewell_base::shards::{self, Shards};
use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_counters::names;
use pagewell_fs::{
    Access, Attributes, Call, Change, CompactId, Entry, Error, FileId, FileType, Result, Statistics,
};
use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessReply, DecodeReply, FileAttributes, FsstatReply, GetattrReply,
    Procedure, ReadlinkReply, Status, WccData,
};

use super::attributes::{Moment, Stamp};
use super::calls::{Calls, may_wait, whole};
use super::convert;
use super::node::{Node, User};
use super::root::Root;

/// Objects of one mount that may be forgotten. With [`super::names::NAMES_MAX`] names and
/// [`super::pages::BYTES_MAX`] of listings they take less than the 64 MiB that a mount may have
/// beside its cache.
pub(super) const NODES_MAX: usize = 30_000;

/// Files that are kept for an unreported error.
const FAILED_MAX: usize = 1000;

/// Forgotten objects between two calls of the allocator.
const FORGOTTEN_MANY: usize = NODES_MAX / 2;

pub(super) struct Objects {
    calls: Arc<Calls>,
    files: Arc<Files>,
    root: Root,
}

impl Objects {
    pub(super) fn new(calls: Arc<Calls>, files: Arc<Files>, root: Root) -> Self {
        Self { calls, files, root }
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn node(&self, id: &FileId) -> Arc<Node> {
        self.files.node(id)
    }

    /// Those believed, or asked for now.
    pub(super) fn attributes_of(&self, call: &Call<'_>, node: &Node) -> Result<Attributes> {
        let state = node.lock();
        if let Some(believed) = state.remains().or_else(|| state.believed()) {
            names::CLIENT_ATTRIBUTE_HITS.add(1);
            return Ok(believed);
        }
        drop(state);
        self.ask_attributes(call, node)
    }

    /// Asked for now.
    pub(super) fn ask_attributes(&self, call: &Call<'_>, node: &Node) -> Result<Attributes> {
        may_wait(call)?;
        names::CLIENT_ATTRIBUTE_MISSES.add(1);
        let object = self.root.on_wire(node.id());
        let arguments = convert::handle(&object);
        let answer = self
            .calls
            .ask(call, Procedure::Getattr, &arguments, whole::<GetattrReply>)?;
        let found = answer.value;
        let found = found.map_err(|failure| refused(node, failure.status))?;
        self.files.look(node, Some(&found), answer.sent)?;
        let mut state = node.lock();
        state.end_question();
        state.known().ok_or(Error::Stale)
    }

    /// An object in an answer, with its attributes there, else asked for.
    pub(super) fn entry(
        &self,
        call: &Call<'_>,
        id: FileId,
        attributes: Option<&FileAttributes>,
        sent: Moment,
    ) -> Result<Entry> {
        let id = self.root.object_of(id);
        let mut node = self.node(&id);
        if self.files.look(&node, attributes, sent).is_err() {
            // The server uses handles again: what was known is of another object.
            node = self.node(&id);
            self.files.look(&node, attributes, sent)?;
        }
        if attributes.is_none() {
            // It may have changed since: CREATE leaves a longer file as it is.
            node.lock().doubt();
        }
        let known = attributes.and_then(|_| node.lock().known());
        let attributes = known.map_or_else(|| self.attributes_of(call, &node), Ok)?;
        Ok(Entry { id, attributes })
    }

    pub(super) fn directory(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Node>> {
        let node = self.node(id);
        let attributes = self.attributes_of(call, &node)?;
        if node.lock().remains().is_some() {
            Err(Error::NotFound) // whatever is looked for in it, or is to be made
        } else if attributes.file_type.is_directory() {
            Ok(node)
        } else {
            Err(Error::NotDirectory)
        }
    }

    pub(super) fn user(&self, call: &Call<'_>) -> Arc<User> {
        Arc::new(User {
            credentials: call.credentials.clone(),
            encoded: self.calls.credential(call.credentials),
        })
    }

    /// What a caller may do, of what it wants.
    pub(super) fn granted(&self, call: &Call<'_>, node: &Node, wanted: Access) -> Result<Access> {
        let state = node.lock();
        if let Some(granted) = state.granted(call.credentials) {
            return Ok(granted & wanted);
        }
        // Rights of when the answer comes may be newer than the answer.
        let of = state.rights();
        drop(state);
        may_wait(call)?;
        let object = self.root.on_wire(node.id());
        let arguments = AccessArguments {
            object: convert::handle(&object),
            access: Access::ALL.0,
        };
        let answer = self
            .calls
            .ask(call, Procedure::Access, &arguments, whole::<AccessReply>)?;
        let allowed = answer.value;
        let allowed = allowed.map_err(|failure| refused(node, failure.status))?;
        self.files
            .look(node, allowed.object_attributes.as_ref(), answer.sent)?;
        let granted = Access(allowed.access) & Access::ALL;
        node.lock().grant(call.credentials, granted, of);
        Ok(granted & wanted)
    }

    /// Refuses callers that have none of these kinds of access.
    pub(super) fn check(&self, call: &Call<'_>, node: &Node, any_of: Access) -> Result<()> {
        if self.granted(call, node, any_of)?.intersects(any_of) {
            Ok(())
        } else {
            Err(Error::AccessDenied)
        }
    }

    /// [`Self::check`] of a regular file. Its owner may, whatever its mode (RFC 1813 section 4.4).
    pub(super) fn check_data(&self, call: &Call<'_>, node: &Node, any_of: Access) -> Result<()> {
        let attributes = self.attributes_of(call, node)?;
        match attributes.file_type {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid),
        }
        let credentials = call.credentials;
        let is_owner = attributes.uid == self.calls.options().uid_of(credentials);
        if is_owner || node.lock().is_made_by(credentials, &attributes) {
            return Ok(());
        }
        self.check(call, node, any_of)
    }

    /// [`pagewell_fs::FileSystem::access`].
    pub(super) fn access(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: Access,
    ) -> Result<(Access, Attributes)> {
        let node = self.node(id);
        let mut granted = self.granted(call, &node, wanted)?;
        if self.calls.options().read_only {
            let change = Access::MODIFY | Access::EXTEND | Access::DELETE;
            granted = Access(granted.0 & !change.0);
        }
        Ok((granted, self.attributes_of(call, &node)?))
    }

    /// [`pagewell_fs::FileSystem::read_link`].
    pub(super) fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let node = self.node(id);
        if let Some(known) = node.lock().link() {
            return Ok(known);
        }
        may_wait(call)?;
        let arguments = convert::handle(id);
        let answer = self
            .calls
            .ask(call, Procedure::Readlink, &arguments, |decoder| {
                let reply = ReadlinkReply::decode_reply(decoder)?;
                Ok(reply.map(|link| (link.target.to_vec(), link.symlink_attributes)))
            })?;
        let found = answer.value;
        let (target, attributes) = found.map_err(|failure| refused(&node, failure.status))?;
        self.files.look(&node, attributes.as_ref(), answer.sent)?;
        let attributes = self.attributes_of(call, &node)?;
        node.lock().keep_link(&target, &attributes);
        Ok((target, attributes))
    }

    /// [`pagewell_fs::FileSystem::statistics`].
    pub(super) fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        may_wait(call)?;
        let root = self.root.on_wire(self.root.id());
        let arguments = convert::handle(&root);
        let answer = self
            .calls
            .ask(call, Procedure::Fsstat, &arguments, whole::<FsstatReply>)?;
        let sizes = answer
            .value
            .map_err(|failure| convert::error(failure.status))?;
        Ok(Statistics {
            bytes_total: sizes.bytes_total,
            bytes_free: sizes.bytes_free,
            bytes_available: sizes.bytes_available,
            files_total: sizes.files_total,
            files_free: sizes.files_free,
            files_available: sizes.files_available,
        })
    }

    /// Does `work` with these objects; again when the root is among them and has another handle
    /// now.
    pub(super) fn with_root<T>(
        &self,
        call: &Call<'_>,
        objects: &[&FileId],
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        if !objects.contains(&self.root.id()) {
            return work();
        }
        let before = self.root.on_wire(self.root.id());
        let done = work();
        let is_stale = matches!(done, Err(Error::Stale));
        if !is_stale || !call.may_block || !self.root.renew(&before) {
            return done;
        }
        self.begin_anew(call)?;
        work()
    }

    /// Forgets the root under its last handle, and learns its file system's number.
    fn begin_anew(&self, call: &Call<'_>) -> Result<()> {
        let node = self.node(self.root.id());
        let mut state = node.lock();
        state.changed_by_others();
        state.doubt();
        drop(state);
        let handle = self.root.on_wire(self.root.id());
        let handle = convert::handle(&handle);
        let answer = self
            .calls
            .ask(call, Procedure::Getattr, &handle, whole::<GetattrReply>)?;
        let found = answer.value;
        let found = found.map_err(|failure| convert::error_of_object(failure.status))?;
        self.calls.set_filesystem_id(found.filesystem_id);
        Ok(())
    }
}

/// The caller's error when the server refuses something of an object. Its attributes are in doubt
/// then.
pub(super) fn refused(node: &Node, status: Status) -> Error {
    node.lock().doubt();
    convert::error_of_object(status)
}

/// The known objects. One is forgotten when it was not used for long, no program has it open, none
/// of its data is in memory, and all of it is safe at the server.
pub(super) struct Files {
    calls: Arc<Calls>,
    nodes: Shards<Generations<CompactId, Arc<Node>>>,
    hasher: RandomState,
    /// Since the allocator gave memory back.
    forgotten: AtomicUsize,
    next_number: AtomicU64,
    /// Nodes of handles that mean other objects now, while they have data to send.
    replaced: Mutex<Vec<Arc<Node>>>,
    /// Those with an unreported error, at most [`FAILED_MAX`]: others' are reported as long as
    /// their file is remembered.
    failed: Mutex<HashMap<u64, Arc<Node>>>,
}

impl Files {
    pub(super) fn new(calls: Arc<Calls>, nodes_max: usize) -> Self {
        Self {
            calls,
            nodes: Shards::new(|| Generations::new(nodes_max / shards::COUNT)),
            hasher: RandomState::new(),
            forgotten: AtomicUsize::new(0),
            next_number: AtomicU64::new(1),
            replaced: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    fn nodes(&self, key: &CompactId) -> MutexGuard<'_, Generations<CompactId, Arc<Node>>> {
        self.nodes.lock(self.hasher.hash_one(key))
    }

    pub(super) fn node(&self, id: &FileId) -> Arc<Node> {
        let key = CompactId::new(id);
        let mut nodes = self.nodes(&key);
        if let Some(node) = nodes.get(&key) {
            return node.clone();
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let node = Arc::new(Node::new(*id, number));
        // A thread that has it needs it to stay the only one of its identifier.
        let may_go = |node: &Arc<Node>| Arc::strong_count(node) == 1 && node.may_be_forgotten();
        let forgotten = nodes.put(key, node.clone(), may_go);
        drop(nodes);
        if forgotten > 0
            && self.forgotten.fetch_add(forgotten, Ordering::Relaxed) + forgotten >= FORGOTTEN_MANY
        {
            self.forgotten.store(0, Ordering::Relaxed);
            // Much between them is free as well.
            pagewell_fs::trim::give_back();
        }
        node
    }

    /// The object is gone, or another.
    pub(super) fn forget(&self, node: &Node) {
        let key = CompactId::new(node.id());
        let mut nodes = self.nodes(&key);
        if nodes
            .get(&key)
            .is_some_and(|known| known.number() == node.number())
        {
            let replaced = nodes.remove(&key);
            drop(nodes);
            let mut all = self.replaced.lock();
            all.extend(replaced);
            let ended = all.extract_if(.., |node| node.may_be_forgotten());
            let ended: Vec<_> = ended.collect();
            drop(all);
            drop(ended);
        }
    }

    /// Takes attributes from a call that changed nothing. Forgets an object that is another now.
    pub(super) fn look(
        &self,
        node: &Node,
        attributes: Option<&FileAttributes>,
        sent: Moment,
    ) -> Result<()> {
        let Some(attributes) = attributes else {
            return Ok(());
        };
        let looked = node.look(&self.calls.reported(node.id(), attributes, sent));
        looked.inspect_err(|_| self.forget(node))
    }

    /// Takes the states of an object from a call that changed it. Returns its change and stamp.
    pub(super) fn end_change(&self, node: &Node, wcc: &WccData, sent: Moment) -> (Change, Stamp) {
        let reported = wcc
            .after
            .map(|after| self.calls.reported(node.id(), &after, sent));
        let before = wcc.before.map(convert::wcc);
        let (after, stamp) = node.end_change(before, reported.as_ref(), self.calls.now());
        let after = after.inspect_err(|_| self.forget(node));
        let after = after.unwrap_or_default();
        (Change { before, after }, stamp)
    }

    pub(super) fn note_failed(&self, node: &Arc<Node>) {
        let mut failed = self.failed.lock();
        if failed.len() < FAILED_MAX {
            failed.insert(node.number(), node.clone());
        }
    }

    pub(super) fn was_reported(&self, node: &Node) {
        self.failed.lock().remove(&node.number());
    }

    pub(super) fn failed(&self) -> Vec<Arc<Node>> {
        self.failed.lock().values().cloned().collect()
    }
}

/// A bounded map that forgets what was not used for long.
///
/// **Rule.** There are two maps, the young and the old. What is put in or found goes to the young
/// one. When that holds half of the limit, the old one is forgotten and the young one becomes old.
/// So what was used within the last half of the limit's insertions is there, without lists. What
/// must stay is carried over, and does not count, so that new entries pay for each move.
///
/// ```text
///   put, found ──> young ──half full──> old ──half full──> forgotten
///                    ^                   │ found, or must stay
///                    └───────────────────┘
/// ```
///
/// **Known weakness.** Half of all entries are forgotten at once, and those that must stay are
/// moved each time.
#[derive(Debug)]
pub(super) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
    /// Those that were carried over.
    carried: usize,
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// At most so many entries, besides those that must stay.
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            half: (entries_max / 2).max(1),
            carried: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Finds an entry, which stays for longer now.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some((key, value)) = self.old.remove_entry(key) {
            // In the place of its own: nothing grows.
            self.young.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// Puts an entry in; when there are too many, forgets those of the old generation that
    /// `may_go`. Returns how many.
    pub(super) fn put(&mut self, key: K, value: V, may_go: impl Fn(&V) -> bool) -> usize {
        self.old.remove(&key);
        let mut forgotten = 0;
        if self.young.len() >= self.half + self.carried {
            let aged = std::mem::take(&mut self.young);
            let before = std::mem::replace(&mut self.old, aged);
            forgotten = before.len();
            let kept = before.into_iter().filter(|(_, value)| !may_go(value));
            self.young.extend(kept);
            self.carried = self.young.len();
            forgotten -= self.carried;
        }
        self.young.insert(key, value);
        forgotten
    }

    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{NAMES_MAX, Remembered};
    use crate::node::Granted;
    use crate::testing::calls;

    /// A map's place for an entry, with one free place for each that is taken at most.
    fn place_bytes<K, V>() -> usize {
        2 * (size_of::<(K, V)>() + 1)
    }

    #[test]
    fn what_is_known_fits_into_memory() {
        // One user of each, the counts of an Arc, and what an allocation costs.
        let node = size_of::<Node>() + size_of::<Granted>() + 48;
        let node = node + place_bytes::<CompactId, Arc<Node>>();
        // A name of usual length.
        let name = place_bytes::<Box<[u8]>, Remembered>() + 64;
        let total = NODES_MAX * node + NAMES_MAX * name + crate::pages::BYTES_MAX;
        assert!(total < 43 << 20, "{node} {name} {total}");
    }

    fn id(number: u32) -> FileId {
        FileId::new(&number.to_ne_bytes()).unwrap()
    }

    #[test]
    fn what_is_in_use_stays_the_only_one() {
        let files = Files::new(calls().0, 10_000);
        let used = files.node(&id(0));
        let written = files.node(&id(1)).number();
        files.node(&id(1)).lock().length_mut().wrote(5);
        for number in 2..200_000 {
            files.node(&id(number));
        }
        assert_eq!(files.node(&id(0)).number(), used.number());
        assert_eq!(files.node(&id(1)).number(), written);
        let kept: usize = files.nodes.each().map(|part| part.len()).sum();
        assert!((5_000..=10_100).contains(&kept), "{kept}");
        files.forget(&used);
        assert_ne!(files.node(&id(0)).number(), used.number());
        assert_eq!(files.replaced.lock().len(), 0, "nothing of it is in memory");
        // What was written to it is still to be sent.
        files.forget(&files.node(&id(1)));
        assert_eq!(files.replaced.lock().len(), 1);
    }

    #[test]
    fn files_with_errors_that_nobody_asks_for_are_bounded() {
        let files = Files::new(calls().0, 100);
        for number in 0..3_000 {
            files.note_failed(&files.node(&id(number)));
        }
        assert_eq!(files.failed().len(), 1_000);
        files.was_reported(&files.failed()[0]);
        files.note_failed(&files.node(&id(5_000)));
        assert_eq!(files.failed().len(), 1_000);
    }

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut map = Generations::new(100);
        for number in 0..1000u32 {
            map.put(number, number, |_| true);
            assert!(map.len() <= 100);
            assert_eq!(map.get(&0), Some(&mut 0), "{number}");
            assert!(map.get(&number.saturating_sub(20)).is_some());
        }
        assert_eq!(map.get(&500), None);
        assert_eq!(map.remove(&0), Some(0));
        assert_eq!(map.get(&0), None);
    }

    /// Else each new one would move all of them, once half of the limit may not go.
    #[test]
    fn those_that_may_not_go_are_seldom_moved() {
        let mut map = Generations::new(100);
        for number in 0..200u32 {
            map.put(number, number, |_| false);
        }
        let asked = std::cell::Cell::new(0);
        for number in 200..300u32 {
            map.put(number, number, |_| {
                asked.set(asked.get() + 1);
                false
            });
        }
        assert_eq!(map.len(), 300);
        assert!(asked.get() <= 500, "{}", asked.get());
    }

    #[test]
    fn what_may_not_go_stays() {
        let mut map = Generations::new(10);
        for number in 0..1000u32 {
            map.put(number, number, |number| number % 100 != 0);
        }
        for number in (0..1000).step_by(100) {
            assert_eq!(map.get(&number), Some(&mut { number }));
        }
        assert!(map.len() <= 30, "{}", map.len());
    }
}
