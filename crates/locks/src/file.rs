//! The locks of one file, by the rules of POSIX (fcntl(2), "Advisory record locking").
//!
//! Each owner has a list of pieces in file order, without overlaps. A new lock replaces what its
//! owner had there: pieces change kind, split, or join with neighbours of their kind. Between
//! owners a write lock conflicts with everything. Files have few locks, so searches are linear.

use std::collections::HashMap;

use crate::owner::Owner;
use crate::range::Range;

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

/// A locked range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes.
    pub range: Range,
    /// Its kind.
    pub kind: Kind,
    /// The client's NSM state number then.
    pub state: i32,
}

/// The pieces of each owner.
#[derive(Default)]
pub struct FileLocks {
    owners: HashMap<Owner, Vec<Piece>>,
}

impl FileLocks {
    /// Whether none is locked.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Others' pieces that conflict with a lock.
    pub fn conflicts<'s, 'o>(
        &'s self,
        owner: &'o Owner,
        range: Range,
        kind: Kind,
    ) -> impl Iterator<Item = (&'s Owner, &'s Piece)> + use<'s, 'o> {
        let others = self.owners.iter().filter(move |(other, _)| *other != owner);
        others.flat_map(move |(other, pieces)| {
            // In order, without overlaps.
            let first = pieces.partition_point(|piece| piece.range.ends_before(&range));
            let there = pieces.get(first..).unwrap_or(&[]).iter();
            let exclusive = move |piece: &&Piece| kind == Kind::Write || piece.kind == Kind::Write;
            there
                .take_while(move |piece| piece.range.overlaps(&range))
                .filter(exclusive)
                .map(move |piece| (other, piece))
        })
    }

    /// The first conflict in file order.
    pub fn conflict<'s>(
        &'s self,
        owner: &Owner,
        range: Range,
        kind: Kind,
    ) -> Option<(&'s Owner, &'s Piece)> {
        self.conflicts(owner, range, kind)
            .min_by_key(|(other, piece)| (piece.range, *other))
    }

    /// The owner's pieces.
    pub fn of(&self, owner: &Owner) -> &[Piece] {
        self.owners.get(owner).map_or(&[], Vec::as_slice)
    }

    /// All owners with their pieces.
    pub fn owners(&self) -> impl Iterator<Item = (&Owner, &[Piece])> {
        let owners = self.owners.iter();
        owners.map(|(owner, pieces)| (owner, pieces.as_slice()))
    }

    /// The owner's pieces with `added` for all in `range`.
    pub fn changed(&self, owner: &Owner, range: Range, added: &[Piece]) -> Vec<Piece> {
        let left = self.of(owner).iter().flat_map(|piece| {
            let rest = piece.range.without(&range).into_iter().flatten();
            rest.map(|range| Piece { range, ..*piece })
        });
        let mut pieces: Vec<Piece> = left.chain(added.iter().copied()).collect();
        pieces.sort_unstable_by_key(|piece| piece.range);
        pieces.dedup_by(|next, piece| {
            let joined = piece.range.joined(&next.range);
            match joined.filter(|_| piece.kind == next.kind) {
                Some(range) => {
                    piece.range = range;
                    // The owner lives in the newer state.
                    piece.state = added.first().map_or(piece.state, |added| added.state);
                    true
                }
                None => false,
            }
        });
        pieces
    }

    /// Sets the owner's pieces.
    pub fn set(&mut self, owner: &Owner, pieces: Vec<Piece>) {
        if pieces.is_empty() {
            self.owners.remove(owner);
        } else {
            self.owners.insert(owner.clone(), pieces);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::owner;
    use proptest::prelude::*;

    const BYTES: u64 = 24;

    fn range(offset: u64, length: u64) -> Range {
        Range::new(offset, length).unwrap()
    }

    fn lock(locks: &mut FileLocks, owner: &Owner, range: Range, kind: Option<Kind>) {
        let added = kind.map(|kind| Piece {
            range,
            kind,
            state: 1,
        });
        let pieces = locks.changed(owner, range, added.as_slice());
        locks.set(owner, pieces);
    }

    /// What `who` holds at each byte.
    fn bytes(locks: &FileLocks, who: &Owner) -> Vec<Option<Kind>> {
        let at = |byte| {
            let mut pieces = locks.of(who).iter();
            let piece = pieces.find(|piece| piece.range.overlaps(&range(byte, 1)));
            piece.map(|piece| piece.kind)
        };
        (0..=BYTES).map(at).collect()
    }

    #[test]
    fn a_lock_inside_another_splits_it_and_unlocking_the_gap_joins_nothing() {
        let (mut locks, who) = (FileLocks::default(), owner(1));
        lock(&mut locks, &who, range(0, 0), Some(Kind::Read));
        lock(&mut locks, &who, range(5, 5), Some(Kind::Write));
        let shape = |locks: &FileLocks| -> Vec<_> {
            let pieces = locks.of(&who).iter();
            pieces.map(|piece| (piece.range, piece.kind)).collect()
        };
        let split = [
            (range(0, 5), Kind::Read),
            (range(5, 5), Kind::Write),
            (range(10, 0), Kind::Read),
        ];
        assert_eq!(shape(&locks), split);
        lock(&mut locks, &who, range(5, 5), None);
        assert_eq!(shape(&locks), [split[0], split[2]]);
        lock(&mut locks, &who, range(5, 5), Some(Kind::Read));
        assert_eq!(shape(&locks), [(range(0, 0), Kind::Read)], "one again");
        lock(&mut locks, &who, range(0, 0), None);
        assert!(locks.is_empty());
    }

    #[test]
    fn readers_share_and_the_first_conflict_is_found() {
        let mut locks = FileLocks::default();
        let (one, two, three) = (owner(1), owner(2), owner(3));
        lock(&mut locks, &one, range(8, 2), Some(Kind::Read));
        lock(&mut locks, &two, range(4, 2), Some(Kind::Read));
        assert!(locks.conflict(&three, range(0, 0), Kind::Read).is_none());
        let (holder, piece) = locks.conflict(&three, range(0, 0), Kind::Write).unwrap();
        assert_eq!((holder, piece.range), (&two, range(4, 2)));
        assert!(locks.conflict(&one, range(8, 2), Kind::Write).is_none());
        assert!(locks.conflict(&one, range(5, 1), Kind::Write).is_some());
    }

    proptest! {
        /// A map from byte to kind, for each owner, is the whole truth about locks.
        #[test]
        fn locks_are_what_a_map_of_bytes_says(
            steps in prop::collection::vec((0..3i32, 0..BYTES, 0..BYTES, 0..3u8), 1..60)
        ) {
            let mut locks = FileLocks::default();
            let mut model = vec![vec![None; BYTES as usize + 1]; 3];
            for (who, offset, length, what) in steps {
                let kind = [None, Some(Kind::Read), Some(Kind::Write)][usize::from(what)];
                // The last byte of the map stands for all bytes that come after the others.
                let length = length.min(BYTES - offset);
                let end = if length == 0 { BYTES + 1 } else { offset + length };
                let wanted = offset as usize..end as usize;
                let free = (0..3).filter(|other| *other != who).all(|other| {
                    wanted.clone().all(|byte| match (kind, model[other as usize][byte]) {
                        (None, _) | (_, None) => true,
                        (Some(wanted), Some(held)) => wanted == Kind::Read && held == Kind::Read,
                    })
                });
                let wanted_range = range(offset, length);
                if let Some(kind) = kind {
                    let found = locks.conflict(&owner(who), wanted_range, kind);
                    prop_assert_eq!(found.is_none(), free);
                }
                if free {
                    lock(&mut locks, &owner(who), wanted_range, kind);
                    model[who as usize][wanted].fill(kind);
                }
                for other in 0..3 {
                    prop_assert_eq!(&bytes(&locks, &owner(other)), &model[other as usize]);
                    let pieces = locks.of(&owner(other));
                    for pair in pieces.windows(2) {
                        prop_assert!(!pair[0].range.overlaps(&pair[1].range));
                        prop_assert!(
                            pair[0].range.joined(&pair[1].range).is_none()
                                || pair[0].kind != pair[1].kind
                        );
                    }
                }
            }
        }
    }
}
