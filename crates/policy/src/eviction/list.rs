//! Queues of places, linked through one table.
//!
//! Each place of the arena has one node with two links, so it is in at most one list, and joining,
//! leaving and moving take no memory and constant time.

use super::FrameIndex;

/// No place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    before: u32,
    after: u32,
    /// The list it is in, or [`Links::lists`] for none.
    list: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    length: usize,
}

/// Several lists over the places of one arena. Places that the arena does not have are ignored.
#[derive(Debug)]
pub struct Links {
    nodes: Vec<Node>,
    lists: Vec<Ends>,
}

impl Links {
    /// Empty lists named 0 to `lists` less 1.
    #[must_use]
    pub fn new(frames: u32, lists: usize) -> Self {
        let node = Node {
            before: NONE,
            after: NONE,
            list: lists,
        };
        let ends = Ends {
            first: NONE,
            last: NONE,
            length: 0,
        };
        Self {
            nodes: vec![node; frames as usize],
            lists: vec![ends; lists],
        }
    }

    /// The number of places in a list.
    #[must_use]
    pub fn length(&self, list: usize) -> usize {
        self.lists[list].length
    }

    /// The place at the front, which came first.
    #[must_use]
    pub fn first(&self, list: usize) -> Option<FrameIndex> {
        place(self.lists[list].first)
    }

    /// The place behind `frame` in its list.
    #[must_use]
    pub fn after(&self, frame: FrameIndex) -> Option<FrameIndex> {
        let node = self.nodes.get(frame.0 as usize)?;
        place(node.after)
    }

    /// The list that `frame` is in.
    #[must_use]
    pub fn list_of(&self, frame: FrameIndex) -> Option<usize> {
        let node = self.nodes.get(frame.0 as usize)?;
        (node.list < self.lists.len()).then_some(node.list)
    }

    /// Puts a place at the end of a list, out of the one it was in.
    pub fn push(&mut self, list: usize, frame: FrameIndex) {
        self.remove(frame);
        let last = self.lists[list].last;
        let Some(node) = self.nodes.get_mut(frame.0 as usize) else {
            return;
        };
        *node = Node {
            before: last,
            after: NONE,
            list,
        };
        let ends = &mut self.lists[list];
        ends.last = frame.0;
        ends.length += 1;
        if last == NONE {
            ends.first = frame.0;
        } else {
            self.nodes[last as usize].after = frame.0;
        }
    }

    /// Takes a place out of its list; false when it is in none.
    pub fn remove(&mut self, frame: FrameIndex) -> bool {
        let Some(list) = self.list_of(frame) else {
            return false;
        };
        let Node { before, after, .. } = self.nodes[frame.0 as usize];
        let ends = &mut self.lists[list];
        ends.length -= 1;
        if before == NONE {
            ends.first = after;
        } else {
            self.nodes[before as usize].after = after;
        }
        if after == NONE {
            ends.last = before;
        } else {
            self.nodes[after as usize].before = before;
        }
        self.nodes[frame.0 as usize].list = self.lists.len();
        true
    }
}

fn place(index: u32) -> Option<FrameIndex> {
    (index != NONE).then_some(FrameIndex(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(links: &Links, list: usize) -> Vec<u32> {
        let mut next = links.first(list);
        let walk = std::iter::from_fn(|| {
            let frame = next?;
            next = links.after(frame);
            Some(frame.0)
        });
        walk.collect()
    }

    #[test]
    fn places_join_move_and_leave() {
        let mut links = Links::new(5, 2);
        for frame in 0..5 {
            links.push(0, FrameIndex(frame));
        }
        links.push(1, FrameIndex(2));
        links.push(0, FrameIndex(0));
        assert!(links.remove(FrameIndex(4)));
        assert!(!links.remove(FrameIndex(4)));
        links.push(0, FrameIndex(99));
        assert!(!links.remove(FrameIndex(99)));
        assert_eq!(content(&links, 0), [1, 3, 0]);
        assert_eq!(content(&links, 1), [2]);
        assert_eq!((links.length(0), links.length(1)), (3, 1));
        assert_eq!(links.list_of(FrameIndex(2)), Some(1));
        assert_eq!(links.list_of(FrameIndex(4)), None);
    }
}
