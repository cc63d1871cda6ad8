//! The objects that memory has, by their hashes.
//!
//! An object is in memory once, as long as anything uses it; beyond that the ones that came last
//! are kept, and files of which memory has pages. Forgotten ones are found again by their
//! identifiers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use pagewell_base::sync::Mutex;

use super::file::File;
use super::identifier::{Hash, Identifier, Kind, Turn};
use super::node::Node;

pub(super) const KEPT_MAX: usize = 65_536;

/// Files with pages in memory that are spared before one object is forgotten.
const PASSED_OVER_MAX: usize = 16;

/// Identifiers of earlier objects of one key that are known, and of one object under earlier keys.
const EARLIER_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Nodes(Mutex<State>);

#[derive(Default)]
struct State {
    known: HashMap<(Hash, bool), Known>,
    kept: VecDeque<Arc<Node>>,
}

#[derive(Default)]
struct Known {
    /// The one that has the key now, or had it last.
    node: Weak<Node>,
    turn: Turn,
    /// The node has lost the key.
    is_over: bool,
    earlier: VecDeque<(Turn, Weak<Node>)>,
}

impl Known {
    fn of(&self, turn: Turn) -> Option<Arc<Node>> {
        if turn == self.turn && !self.is_over {
            return self.node.upgrade();
        }
        let mut earlier = self.earlier.iter();
        match earlier.find(|(of, _)| *of == turn) {
            Some((_, node)) => node.upgrade(),
            // The turns of other processes are not known.
            None if turn != self.turn => self.of(self.turn),
            None => None,
        }
    }

    fn lead(&mut self, turn: Turn, to: &Arc<Node>) {
        if let Some((_, node)) = self.earlier.iter_mut().find(|(of, _)| *of == turn) {
            *node = Arc::downgrade(to);
            return;
        }
        if self.earlier.len() >= EARLIER_MAX {
            self.earlier.pop_front();
        }
        self.earlier.push_back((turn, Arc::downgrade(to)));
    }

    /// Whether any identifier leads to an object in memory.
    fn is_used(&self) -> bool {
        let mut earlier = self.earlier.iter();
        self.node.strong_count() > 0 || earlier.any(|(_, node)| node.strong_count() > 0)
    }
}

impl Nodes {
    pub(super) fn get(&self, identifier: &Identifier) -> Option<Arc<Node>> {
        let key = (identifier.hash(), identifier.kind() == Kind::Directory);
        let state = self.0.lock();
        state.known.get(&key)?.of(identifier.turn())
    }

    /// The object that has a key.
    pub(super) fn now(&self, hash: Hash, kind: Kind) -> Option<Arc<Node>> {
        let state = self.0.lock();
        let known = state.known.get(&(hash, kind == Kind::Directory))?;
        known.node.upgrade().filter(|_| !known.is_over)
    }

    pub(super) fn turn(&self, hash: Hash, kind: Kind) -> Turn {
        let state = self.0.lock();
        let known = state.known.get(&(hash, kind == Kind::Directory));
        known.map_or_else(Turn::default, |known| known.turn)
    }

    /// Has the identifiers of an object that has lost its key lead to what it is now, perhaps
    /// itself. The next object of that key gets another identifier.
    pub(super) fn lead(&self, from: &Node, to: &Arc<Node>) {
        let mut state = self.0.lock();
        let is_directory = from.directory().is_some();
        let known = state.known.entry((from.hash(), is_directory)).or_default();
        if known.node.strong_count() == 0 {
            known.turn = from.turn();
        }
        known.is_over |= known.turn == from.turn();
        let mut former = std::mem::take(&mut *from.former());
        former.push_back((from.hash(), from.turn()));
        if former.len() > EARLIER_MAX {
            former.pop_front();
        }
        for &(hash, turn) in &former {
            let known = state.known.entry((hash, is_directory)).or_default();
            known.lead(turn, to);
        }
        to.former().append(&mut former);
    }

    /// With the directory itself.
    pub(super) fn below(&self, prefix: &str) -> Vec<Arc<Node>> {
        let state = self.0.lock();
        let nodes = state.known.values().filter(|known| !known.is_over);
        let nodes: Vec<_> = nodes.filter_map(|known| known.node.upgrade()).collect();
        drop(state);
        let is_below = |node: &Arc<Node>| node.key().starts_with(prefix);
        nodes.into_iter().filter(is_below).collect()
    }

    pub(super) fn get_or_make(
        &self,
        hash: Hash,
        kind: Kind,
        make: impl FnOnce(Turn) -> Node,
    ) -> Arc<Node> {
        let mut state = self.0.lock();
        let known = state
            .known
            .entry((hash, kind == Kind::Directory))
            .or_default();
        if known.is_over {
            known.turn = known.turn.next();
            known.is_over = false;
        } else if let Some(node) = known.node.upgrade() {
            return node;
        }
        let node = Arc::new(make(known.turn));
        known.node = Arc::downgrade(&node);
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
            state.known.retain(|_, known| known.is_used());
        }
        drop(state);
        // Its pages go with it, and perhaps the directories above it: not under the lock.
        drop(forgotten);
        node
    }
}

#[cfg(test)]
mod tests {
    use super::super::identifier::hash_of;
    use super::*;

    fn made(nodes: &Nodes, key: &str) -> Arc<Node> {
        let hash = hash_of(key);
        let make = |turn| Node::new(Kind::File, (hash, turn), key, None);
        nodes.get_or_make(hash, Kind::File, make)
    }

    fn get(nodes: &Nodes, of: &Node) -> Option<Arc<Node>> {
        nodes.get(&Identifier::of_id(&of.id()).unwrap())
    }

    #[test]
    fn an_identifier_leads_through_all_moves_and_never_to_another_object() {
        let nodes = Nodes::default();
        let first = made(&nodes, "a");
        let mut last = first.clone();
        for number in 0..10 * EARLIER_MAX {
            let next = made(&nodes, &format!("a{}", number % 3));
            nodes.lead(&last, &next);
            assert!(Arc::ptr_eq(&get(&nodes, &last).unwrap(), &next));
            if number < EARLIER_MAX - 1 {
                assert!(
                    Arc::ptr_eq(&get(&nodes, &first).unwrap(), &next),
                    "{number}"
                );
            }
            assert!(next.former().len() <= EARLIER_MAX);
            last = next;
        }
        let other = made(&nodes, "a");
        assert!(!Arc::ptr_eq(&first, &other) && get(&nodes, &other).is_some());
        // Memory has the moved one no more.
        nodes.0.lock().kept.clear();
        drop(last);
        assert!(get(&nodes, &first).is_none());
    }
}
