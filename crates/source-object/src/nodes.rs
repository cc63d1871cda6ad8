//! The objects that memory has, by their hashes.
//!
//! An object is in memory once, as long as anything uses it; beyond that the ones that came last
//! are kept, and files of which memory has pages. What is forgotten is found again by its
//! identifier.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use pagewell_base::sync::Mutex;

use super::file::File;
use super::identifier::{Hash, Kind};
use super::node::Node;

/// Objects that are kept though nothing uses them.
pub(super) const KEPT_MAX: usize = 65_536;

/// Files with pages in memory that are kept on, of those that would be forgotten, for one that is.
const PASSED_OVER_MAX: usize = 16;

/// See the module's text.
#[derive(Default)]
pub(super) struct Nodes(Mutex<State>);

#[derive(Default)]
struct State {
    known: HashMap<(Hash, bool), Weak<Node>>,
    /// Those that came last at the back.
    kept: VecDeque<Arc<Node>>,
}

impl Nodes {
    /// The object, if memory has it.
    pub(super) fn get(&self, hash: Hash, kind: Kind) -> Option<Arc<Node>> {
        let state = self.0.lock();
        state.known.get(&(hash, kind == Kind::Directory))?.upgrade()
    }

    /// Has the identifier of an object that has moved lead to what it is now.
    pub(super) fn lead(&self, from: &Node, to: &Arc<Node>) {
        let mut state = self.0.lock();
        let is_directory = from.directory().is_some();
        state
            .known
            .insert((from.hash(), is_directory), Arc::downgrade(to));
    }

    /// The object, made by `make` if memory has none.
    pub(super) fn get_or_make(
        &self,
        hash: Hash,
        kind: Kind,
        make: impl FnOnce() -> Node,
    ) -> Arc<Node> {
        let mut state = self.0.lock();
        let known = state.known.get(&(hash, kind == Kind::Directory));
        // One that has moved leaves its place to a new one.
        if let Some(node) = known.and_then(Weak::upgrade)
            && node.hash() == hash
        {
            return node;
        }
        let node = Arc::new(make());
        state
            .known
            .insert((hash, kind == Kind::Directory), Arc::downgrade(&node));
        state.kept.push_back(node.clone());
        let mut forgotten = Vec::new();
        for passed_over in 0..=PASSED_OVER_MAX {
            if state.kept.len() <= KEPT_MAX {
                break;
            }
            let first = state.kept.pop_front();
            let has_pages = |node: &Arc<Node>| node.file().is_some_and(File::has_pages);
            if passed_over < PASSED_OVER_MAX && first.as_ref().is_some_and(has_pages) {
                state.kept.extend(first);
            } else {
                forgotten.extend(first);
            }
        }
        if state.known.len() > 2 * KEPT_MAX.max(state.kept.len()) {
            state.known.retain(|_, node| node.strong_count() > 0);
        }
        drop(state);
        // Its pages go with it, and perhaps the directories above it: not under the lock.
        drop(forgotten);
        node
    }
}
