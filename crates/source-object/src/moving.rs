//! Objects that are moved, and calls that change them or something below them.
//!
//! A move sends what is changed of them, and then copies what the store has. A change that came in
//! between would be lost. So calls wait until the move is at its end, and find what they change
//! under its new key; a move waits for those that began before it. The place where they go is held
//! in the same way.
//!
//! A move waits only for what lies below its own places, and is to be tried later where another
//! move has a place above or there: so no two wait for each other.
//!
//! Weakness: a move of many objects takes long, and writers below it wait as long.

use std::sync::Arc;

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_fs::{Error, Result};

use super::node::Node;

#[derive(Default)]
pub(super) struct Moving {
    state: Mutex<UnderWay>,
    has_ended: Condvar,
}

#[derive(Default)]
struct UnderWay {
    /// Keys of files, and of directories for what is below them, with the number of the move.
    moved: Vec<(u64, String)>,
    next_number: u64,
    ended_count: u64,
    /// Of calls under way: what they change, or its directory.
    changed: Vec<Arc<Node>>,
}

impl UnderWay {
    fn is_moved(&self, key: &str) -> bool {
        self.moved.iter().any(|(_, moved)| covers(moved, key))
    }
}

fn covers(moved: &str, key: &str) -> bool {
    match moved.ends_with('/') {
        true => key.starts_with(moved),
        false => key == moved,
    }
}

impl Moving {
    /// How many moves have ended: to be asked before an object is looked for.
    pub(super) fn ended_count(&self) -> u64 {
        self.state.lock().ended_count
    }

    /// Waits until no move is under way that this object goes with.
    pub(super) fn wait(&self, node: &Node, may_block: bool) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_moved(node.key()) {
            Error::WouldBlock.unless(may_block)?;
            state = self.has_ended.wait(state);
        }
        Ok(())
    }

    /// Begins a call that changes this, or something in it, and maybe in another directory; until
    /// the result is dropped they stay where they are. `None`: they may not have since so many
    /// moves had ended, and have to be looked for again.
    pub(super) fn stay(
        &self,
        (node, other): (Arc<Node>, Option<Arc<Node>>),
        ended_count: u64,
        may_block: bool,
    ) -> Result<Option<Staying<'_>>> {
        let mut state = self.state.lock();
        let is_moved = |state: &UnderWay| {
            state.is_moved(node.key()) || other.iter().any(|node| state.is_moved(node.key()))
        };
        if is_moved(&state) {
            Error::WouldBlock.unless(may_block)?;
            while is_moved(&state) {
                state = self.has_ended.wait(state);
            }
            return Ok(None);
        }
        if state.ended_count != ended_count {
            return Ok(None);
        }
        state.changed.push(node.clone());
        state.changed.extend(other.clone());
        Ok(Some(Staying {
            moving: self,
            node,
            other,
        }))
    }

    /// Begins to move a file, or what is below a directory; until the result is dropped nothing is
    /// changed there.
    ///
    /// # Errors
    /// [`Error::TryLater`]: it is itself being moved, or its target is.
    pub(super) fn begin(&self, from: &str, to: &str) -> Result<Moved<'_>> {
        let mut state = self.state.lock();
        Error::TryLater.when([from, to].iter().any(|key| state.is_moved(key)))?;
        let number = state.next_number;
        state.next_number += 1;
        let places = [from, to].map(|key| (number, key.to_owned()));
        state.moved.extend(places);
        let is_there = |key: &str| covers(from, key) || covers(to, key);
        loop {
            let is_changed = state.changed.iter().any(|node| is_there(node.key()));
            let mut moved = state.moved.iter();
            if !is_changed && !moved.any(|(of, key)| *of != number && is_there(key)) {
                break;
            }
            state = self.has_ended.wait(state);
        }
        drop(state);
        Ok(Moved {
            moving: self,
            number,
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
    number: u64,
}

impl Drop for Moved<'_> {
    fn drop(&mut self) {
        let mut state = self.moving.state.lock();
        state.moved.retain(|(number, _)| *number != self.number);
        state.ended_count += 1;
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
        moving.stay((node(key), None), moving.ended_count(), false)
    }

    #[test]
    fn calls_there_wait_for_a_move_and_others_do_not() {
        let moving = Moving::default();
        let moved = moving.begin("a/", "b/c/").unwrap();
        let file = moving.begin("file", "d/file").unwrap();
        for key in ["a/x", "a/", "a/b/", "b/c/", "b/c/x", "file", "d/file"] {
            assert_eq!(stay(&moving, key).err(), Some(Error::WouldBlock), "{key}");
        }
        for key in ["ab", "", "b/", "b/x", "file2", "d/", "d/file/"] {
            assert!(stay(&moving, key).unwrap().is_some(), "{key}");
        }
        let ended_count = moving.ended_count();
        let both = (node(""), Some(node("a/b/")));
        let stays = moving.stay(both, ended_count, false);
        assert_eq!(stays.err(), Some(Error::WouldBlock));
        let waits = || moving.stay((node("a/x"), None), ended_count, true);
        let stays = thread::scope(|scope| {
            let waiting = scope.spawn(waits);
            drop(moved);
            waiting.join().unwrap()
        });
        assert!(stays.unwrap().is_none(), "it was looked for before the end");
        drop(file);
        assert!(stay(&moving, "a/x").unwrap().is_some());
        assert!(moving.state.lock().changed.is_empty());
    }

    #[test]
    fn what_was_looked_for_before_a_move_ended_is_looked_for_again() {
        let moving = Moving::default();
        let ended_count = moving.ended_count();
        let found = node("a/x");
        drop(moving.begin("a/", "b/").unwrap());
        let stays = moving.stay((found, None), ended_count, false);
        assert!(stays.unwrap().is_none());
    }

    #[test]
    fn a_move_waits_for_calls_and_moves_below() {
        let moving = Moving::default();
        let (below, beside) = (stay(&moving, "a/x").unwrap(), stay(&moving, "b").unwrap());
        let inner = moving.begin("a/b/", "c/").unwrap();
        let (begun, has_begun) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let moved = moving.begin("a/", "d/").unwrap();
                begun.send(()).unwrap();
                drop(moved);
            });
            // From here on it is known, and waits.
            while stay(&moving, "a/y").is_ok() {
                thread::yield_now();
            }
            drop(below);
            assert!(has_begun.try_recv().is_err());
            drop(inner);
            has_begun.recv().unwrap();
        });
        drop(beside);
        assert!(moving.state.lock().moved.is_empty());
    }

    #[test]
    fn of_moves_into_each_other_one_is_to_be_tried_later() {
        let moving = Moving::default();
        let _moved = moving.begin("a/", "b/x/").unwrap();
        for (from, to) in [
            ("b/", "a/y/"),
            ("a/", "c/"),
            ("a/c/", "c/"),
            ("c/", "a/c/"),
            ("c/", "b/x/"),
            ("file", "a/file"),
        ] {
            let later = moving.begin(from, to).map(drop);
            assert_eq!(later, Err(Error::TryLater), "{from} {to}");
        }
    }
}
