//! Which page goes when another needs its place? [`S3Fifo`] decides.
//!
//! No stream must empty the cache, no hit take a lock or move anything: S3-FIFO (Yang et al., SOSP
//! 2023), with a queue for streams:
//!
//! ```text
//!   read on demand ──> small (10 %) ──not hit──> gone, its name goes to the ghosts
//!                        └──hit──> main ──not hit──> gone
//!   named by a ghost ───────────────^ └─hit──> end of main, heat less 1
//!   read ahead ──────> stream (25 %) ──not hit──> gone, no ghost
//!                        └──hit──> main
//! ```
//!
//! The stream queue is searched first, then the small one, each above its share, then main. The
//! owner of the pages counts heat, but not of the reader that brought the page. A page that cannot
//! go moves to the end.
//!
//! | constant | value | reason |
//! |---|---|---|
//! | small, ghosts | 10 %, as many as main | the paper's |
//! | stream | 25 % | most that may be read ahead and unread when memory is full |
//! | heat | at most 3 | two bits, three more rounds in main |
//! | promotion | heat 1 | a page is counted once for each reader |
//!
//! Weaknesses: a page used again only after its ghost is never kept; a loop slightly above the
//! cache gains little.

use pagewell_base::mix::{STEP, mix};

/// A page's place in the arena, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameIndex(pub u32);

/// How a page came into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A reader asked for it.
    Demand,
    /// Read-ahead for a stream.
    Stream,
}

/// The owner of the pages.
pub trait Frames {
    /// Whether the page is neither pinned nor dirty nor being fetched.
    fn is_evictable(&self, frame: FrameIndex) -> bool;

    /// Hits since the page came or was [`Frames::cool`]ed, up to [`HEAT_MAX`].
    fn heat(&self, frame: FrameIndex) -> u8;

    /// Lowers the heat; hits that come meanwhile may be lost.
    fn cool(&self, frame: FrameIndex, heat: u8);
}

/// Hits that count.
pub const HEAT_MAX: u8 = 3;

/// Most unevictable pages in one search.
pub const SKIPS_MAX: u32 = 128;

/// Most hot pages spared in one search.
pub const SPARED_MAX: u32 = 128;

const SMALL: usize = 0;
const MAIN: usize = 1;
const STREAM: usize = 2;
const LISTS: usize = 3;

/// One place in so many is the small queue's share.
const SMALL_SHARE: u32 = 10;
/// The same of the stream queue.
pub const STREAM_SHARE: u32 = 4;

/// See the module.
#[derive(Debug)]
pub struct S3Fifo {
    links: Links,
    keys: Vec<u64>,
    ghost: Ghost,
    small_share: usize,
    stream_share: usize,
}

impl S3Fifo {
    /// For so many places. Takes all its memory.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        let small_share = (frames / SMALL_SHARE).max(1);
        Self {
            links: Links::new(frames, LISTS),
            keys: vec![0; frames as usize],
            ghost: Ghost::new(frames.saturating_sub(small_share)),
            small_share: small_share as usize,
            stream_share: (frames / STREAM_SHARE).max(1) as usize,
        }
    }

    /// A page came into a free place; `key` is any hash of file and page number.
    pub fn inserted(&mut self, frame: FrameIndex, key: u64, arrival: Arrival) {
        if let Some(slot) = self.keys.get_mut(frame.0 as usize) {
            *slot = key;
        }
        let list = match arrival {
            Arrival::Stream => STREAM,
            Arrival::Demand if self.ghost.take(key) => MAIN,
            Arrival::Demand => SMALL,
        };
        self.links.push(list, frame);
    }

    /// The chosen page cannot go after all.
    pub fn put_back(&mut self, frame: FrameIndex) {
        if let Some(key) = self.keys.get(frame.0 as usize) {
            self.inserted(frame, *key, Arrival::Demand);
        }
    }

    /// The page left unchosen.
    pub fn removed(&mut self, frame: FrameIndex) {
        self.links.remove(frame);
    }

    /// Chooses a page and forgets its place. Gives up after [`SKIPS_MAX`] unevictable ones of each
    /// queue; the next call goes on behind them.
    pub fn victim(&mut self, frames: &dyn Frames) -> Option<FrameIndex> {
        let mut order = [MAIN, SMALL, STREAM];
        if self.links.length(SMALL) > self.small_share {
            order = [SMALL, MAIN, STREAM];
        }
        if self.links.length(STREAM) > self.stream_share {
            order = [STREAM, order[0], order[1]];
        }
        let mut spares = SPARED_MAX;
        for list in order {
            let found = self.search(list, frames, &mut spares);
            if found.is_some() {
                return found;
            }
        }
        // Only when hot pages moved to main after its turn.
        self.search(MAIN, frames, &mut 0)
    }

    fn search(&mut self, list: usize, frames: &dyn Frames, spares: &mut u32) -> Option<FrameIndex> {
        let mut skips = SKIPS_MAX;
        for _ in 0..self.links.length(list).saturating_mul(2) {
            let frame = self.links.first(list)?;
            if !frames.is_evictable(frame) {
                skips = skips.checked_sub(1)?;
                self.links.push(list, frame);
                continue;
            }
            let heat = frames.heat(frame);
            if *spares == 0 || heat == 0 {
                self.links.remove(frame);
                if list == SMALL
                    && let Some(key) = self.keys.get(frame.0 as usize)
                {
                    self.ghost.insert(*key);
                }
                return Some(frame);
            }
            *spares -= 1;
            let heat = if list == MAIN { heat - 1 } else { 0 };
            frames.cool(frame, heat);
            self.links.push(MAIN, frame);
        }
        None
    }
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    before: u32,
    after: u32,
    list: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    length: usize,
}

/// Lists over the places of an arena, in constant time and memory; others are ignored.
#[derive(Debug)]
pub struct Links {
    nodes: Vec<Node>,
    lists: Vec<Ends>,
}

impl Links {
    /// Empty lists, by number from 0.
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

    /// Places in a list.
    #[must_use]
    pub fn length(&self, list: usize) -> usize {
        self.lists[list].length
    }

    /// The place that came first.
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

    /// The list of a place.
    #[must_use]
    pub fn list_of(&self, frame: FrameIndex) -> Option<usize> {
        let node = self.nodes.get(frame.0 as usize)?;
        (node.list < self.lists.len()).then_some(node.list)
    }

    /// Moves a place to the end of a list.
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

    /// Takes a place out of its list; false: it is in none.
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

const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    fingerprint: u32,
    number: u32,
}

/// Names of pages that went lately: as many as the main queue holds.
///
/// A table of buckets of [`WAYS`] slots, each a fingerprint and the number of its entry. An entry
/// is old after `capacity` others; a new one takes its bucket's oldest slot. With two slots for an
/// entry, young ones are rarely lost.
///
/// Weakness: fingerprints have 32 bits, so one lookup in about a thousand million is wrong.
#[derive(Debug)]
pub struct Ghost {
    slots: Vec<Slot>,
    bucket_mask: usize,
    capacity: u32,
    next: u32,
}

impl Ghost {
    /// Remembers at most so many. Takes all its memory.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let buckets = (capacity as usize * 2).div_ceil(WAYS).next_power_of_two();
        Self {
            slots: vec![Slot::default(); buckets * WAYS],
            bucket_mask: buckets - 1,
            capacity,
            next: 0,
        }
    }

    fn find(&mut self, key: u64) -> (u32, &mut [Slot]) {
        // The caller's hash may be none.
        let mixed = mix(key.wrapping_add(STEP));
        let first = (mixed as usize & self.bucket_mask) * WAYS;
        let fingerprint = ((mixed >> 32) as u32).max(1);
        (fingerprint, &mut self.slots[first..first + WAYS])
    }

    /// Remembers a page.
    pub fn insert(&mut self, key: u64) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let (fingerprint, bucket) = self.find(key);
        let age = |slot: &Slot| match slot.fingerprint {
            0 => u32::MAX,
            _ => number.wrapping_sub(slot.number),
        };
        let same = bucket
            .iter()
            .position(|slot| slot.fingerprint == fingerprint);
        let place = match same {
            Some(same) => bucket.get_mut(same),
            None => bucket.iter_mut().max_by_key(|slot| age(slot)),
        };
        if let Some(slot) = place {
            *slot = Slot {
                fingerprint,
                number,
            };
        }
    }

    /// Whether the page is remembered; forgets it.
    pub fn take(&mut self, key: u64) -> bool {
        let (next, capacity) = (self.next, self.capacity);
        let (fingerprint, bucket) = self.find(key);
        let found = bucket
            .iter_mut()
            .find(|slot| slot.fingerprint == fingerprint);
        found.is_some_and(|slot| {
            let remembered = next.wrapping_sub(slot.number) <= capacity;
            *slot = Slot::default();
            remembered
        })
    }
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

    #[test]
    fn the_latest_are_remembered_once_and_the_others_forgotten() {
        let mut ghost = Ghost::new(100);
        for key in 0..1000 {
            ghost.insert(key);
        }
        let remembered: Vec<u64> = (0..1000).filter(|key| ghost.take(*key)).collect();
        assert!(remembered.iter().all(|key| *key >= 900), "{remembered:?}");
        assert!(remembered.len() >= 95, "{remembered:?}");
        assert!((0..2000).all(|key| !ghost.take(key)));
    }

    #[test]
    fn nothing_is_remembered_without_room() {
        let mut ghost = Ghost::new(0);
        ghost.insert(1);
        assert!(!ghost.take(1));
    }
}
