//! Directories that are moved, and calls that change something below them.
//!
//! A move sends what is changed below its directory, and then copies what the store has. A change
//! that came in between would be lost. So calls below wait until the move is at its end, and find
//! what they change under its new key; and a move waits for those that began before it.
//!
//! Of two moves whose directories lie in each other one is to be tried later: neither waits for a
//! call that may wait for it.
//!
//! Weakness: a move of many objects takes long, and writers below it wait as long.

use std::sync::Arc;

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_fs::{Error, Result};

use super::node::Node;

#[derive(Default)]
pub(super) struct Moving {
    state: Mutex<State>,
    has_ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Keys of directories.
    moved: Vec<String>,
    /// Of calls under way: what they change, or its directory.
    changed: Vec<Arc<Node>>,
}

impl State {
    fn is_moved(&self, key: &str) -> bool {
        self.moved.iter().any(|moved| key.starts_with(moved))
    }
}

impl Moving {
    /// Begins a call that changes this, or something in it, and maybe in another directory; until
    /// the result is dropped they stay where they are. `None`: they did not, and have to be looked
    /// for again.
    pub(super) fn stay(
        &self,
        node: Arc<Node>,
        other: Option<Arc<Node>>,
        may_block: bool,
    ) -> Result<Option<Staying<'_>>> {
        let mut state = self.state.lock();
        let is_moved = |state: &State| {
            state.is_moved(node.key()) || other.iter().any(|node| state.is_moved(node.key()))
        };
        if !is_moved(&state) {
            state.changed.push(node.clone());
            state.changed.extend(other.clone());
            return Ok(Some(Staying {
                moving: self,
                node,
                other,
            }));
        }
        Error::WouldBlock.unless(may_block)?;
        while is_moved(&state) {
            state = self.has_ended.wait(state);
        }
        Ok(None)
    }

    /// Begins to move what is below `from`, between two directories; until the result is dropped
    /// nothing below it is changed.
    ///
    /// # Errors
    /// [`Error::TryLater`]: one of these is itself being moved.
    pub(super) fn begin(&self, from: &str, directories: [&str; 2]) -> Result<Moved<'_>> {
        let mut state = self.state.lock();
        let mut keys = directories.into_iter().chain([from]);
        Error::TryLater.when(keys.any(|key| state.is_moved(key)))?;
        state.moved.push(from.to_owned());
        let is_below = |node: &Arc<Node>| node.key().starts_with(from);
        while state.changed.iter().any(is_below) {
            state = self.has_ended.wait(state);
        }
        drop(state);
        Ok(Moved {
            moving: self,
            from: from.to_owned(),
        })
    }
}

/// See [`Moving::stay`].
pub(super) struct Staying<'a> {
    moving: &'a Moving,
    node: Arc<Node>,
    other: Option<Arc<Node>>,
}

impl Staying<'_> {
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        let mut state = self.moving.state.lock();
        for node in [&self.node].into_iter().chain(&self.other) {
            let at = state.changed.iter().position(|one| Arc::ptr_eq(one, node));
            at.map(|at| state.changed.swap_remove(at));
        }
        let is_awaited = !state.moved.is_empty();
        drop(state);
        if is_awaited {
            self.moving.has_ended.notify_all();
        }
    }
}

/// See [`Moving::begin`].
pub(super) struct Moved<'a> {
    moving: &'a Moving,
    from: String,
}

impl Drop for Moved<'_> {
    fn drop(&mut self) {
        let mut state = self.moving.state.lock();
        let at = state.moved.iter().position(|moved| *moved == self.from);
        at.map(|at| state.moved.swap_remove(at));
        drop(state);
        self.moving.has_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::super::identifier::{Kind, Turn, hash_of};
    use super::*;

    fn node(key: &str) -> Arc<Node> {
        let kind = if key.ends_with('/') {
            Kind::Directory
        } else {
            Kind::File
        };
        Arc::new(Node::new(kind, (hash_of(key), Turn::default()), key, None))
    }

    fn stay<'a>(moving: &'a Moving, key: &str) -> Result<Option<Staying<'a>>> {
        moving.stay(node(key), None, false)
    }

    #[test]
    fn calls_below_wait_for_a_move_and_others_do_not() {
        let moving = Moving::default();
        let moved = moving.begin("a/", ["", ""]).unwrap();
        for (key, waits) in [
            ("a/x", true),
            ("a/", true),
            ("a/b/", true),
            ("ab", false),
            ("", false),
        ] {
            assert_eq!(
                stay(&moving, key).err(),
                waits.then_some(Error::WouldBlock),
                "{key}"
            );
        }
        let other = moving.stay(node(""), Some(node("a/b/")), false);
        assert_eq!(other.err(), Some(Error::WouldBlock));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                moving
                    .stay(node("a/x"), None, true)
                    .map(|stays| stays.is_some())
            });
            drop(moved);
            // It did not stay where it was, unless the call began only now.
            waiting.join().unwrap().unwrap();
        });
        assert!(stay(&moving, "a/x").unwrap().is_some());
        assert!(moving.state.lock().changed.is_empty());
    }

    #[test]
    fn a_move_waits_for_calls_below() {
        let moving = Moving::default();
        let (below, beside) = (stay(&moving, "a/x").unwrap(), stay(&moving, "b").unwrap());
        let (begun, has_begun) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let moved = moving.begin("a/", ["", ""]).unwrap();
                begun.send(()).unwrap();
                drop(moved);
            });
            // From here on it is known, and waits.
            while stay(&moving, "a/y").is_ok_and(|stays| stays.is_some()) {
                thread::yield_now();
            }
            assert!(has_begun.try_recv().is_err());
            drop(below);
            has_begun.recv().unwrap();
        });
        drop(beside);
        assert!(moving.state.lock().moved.is_empty());
    }

    #[test]
    fn of_moves_into_each_other_one_is_to_be_tried_later() {
        let moving = Moving::default();
        // Both have found their directories before one begins.
        let one = moving.stay(node(""), Some(node("b/")), false).unwrap();
        let other = moving.stay(node(""), Some(node("a/")), false).unwrap();
        thread::scope(|scope| {
            let begun = scope.spawn(|| moving.begin("a/", ["", "b/"]).map(drop));
            while !moving.state.lock().is_moved("a/") {
                thread::yield_now();
            }
            let later = moving.begin("b/", ["", "a/"]).map(drop);
            assert_eq!(later, Err(Error::TryLater));
            drop(other);
            begun.join().unwrap().unwrap();
        });
        drop(one);
        // Nor is a directory moved twice at once, nor one in it.
        let _moved = moving.begin("a/", ["", ""]).unwrap();
        for from in ["a/", "a/b/"] {
            assert_eq!(moving.begin(from, ["", ""]).map(drop), Err(Error::TryLater));
        }
    }
}
