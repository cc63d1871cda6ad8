//! Identifiers of objects without a table.
//!
//! At most 50 bytes, little-endian:
//!
//! ```text
//! 0  layout  1
//! 1  kind    two bits: 1 directory, 2 file; above them, and in byte 3, the turn
//! 2  depth   slashes of the key below the root, at most 255
//! 4  hash    16 bytes, of bucket and key
//! 20 hints   for each directory between the root and the object some bits of its own hash
//! ```
//!
//! The *turn* tells apart the objects that have a key one after the other while memory knows both,
//! as when one was moved away, or removed while it was open. Other processes do not know it, and
//! take the object that has the key.
//!
//! An object that memory has lost is searched for from the root: of the directories in a listing,
//! those whose hash has the bits of the hint are listed in turn. A hint has 16 bits for paths of up
//! to 15 directories, and fewer for longer ones; at most 240 directories have one, and longer paths
//! are found only while memory has them.

use std::hash::Hasher as _;

use pagewell_fs::identity::SERVED_ID_BYTES_MAX;
use pagewell_fs::{Error, FileId, Result};
use siphasher::sip128::{Hasher128, SipHasher24};

const LAYOUT: u8 = 1;
const HEAD_BYTES: usize = 20;
const HINT_BITS: usize = 8 * (SERVED_ID_BYTES_MAX - HEAD_BYTES);
const HINT_BITS_EACH_MAX: usize = 16;
const TURNS: u16 = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hash([u8; 16]);

impl Hash {
    pub(super) fn halves(self) -> (u64, u64) {
        let value = u128::from_le_bytes(self.0);
        #[allow(clippy::cast_possible_truncation)] // the halves are wanted
        (value as u64, (value >> 64) as u64)
    }

    pub(super) fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The inode number of the object that has it in this turn.
    pub(super) fn number(self, turn: Turn) -> u64 {
        (self.halves().0 ^ u64::from(turn.0) << 24).max(2)
    }

    fn hint(self, bits: usize) -> u16 {
        let whole = u32::from(u16::from_le_bytes([self.0[8], self.0[9]]));
        let mask = (1_u32 << bits.min(HINT_BITS_EACH_MAX)) - 1;
        u16::try_from(whole & mask).unwrap_or(u16::MAX)
    }
}

/// See above. Most keys have one object for as long as memory knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Turn(u16);

impl Turn {
    pub(super) fn next(self) -> Self {
        Self((self.0 + 1) % TURNS)
    }
}

pub(super) fn hash_of(text: &str) -> Hash {
    KeyHasher::new("").of(text)
}

/// Makes the hashes of the keys of one bucket.
#[derive(Clone)]
pub(super) struct KeyHasher(SipHasher24);

impl KeyHasher {
    pub(super) fn new(bucket: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(bucket.as_bytes());
        hasher.write_u8(0xff);
        Self(hasher)
    }

    pub(super) fn of(&self, key: &str) -> Hash {
        let mut hasher = self.0;
        hasher.write(key.as_bytes());
        Hash(hasher.finish128().as_bytes())
    }

    /// Of an object of this kind. A file may have the key of a directory, and has another hash: the
    /// byte behind it is in no key.
    pub(super) fn of_object(&self, kind: Kind, key: &str) -> Hash {
        if kind == Kind::Directory || !key.ends_with('/') {
            return self.of(key);
        }
        let mut hasher = self.0;
        hasher.write(key.as_bytes());
        hasher.write_u8(0xff);
        Hash(hasher.finish128().as_bytes())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory = 1,
    File = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identifier {
    kind: Kind,
    turn: Turn,
    hash: Hash,
    depth: u8,
    hints: [u8; HINT_BITS / 8],
}

impl Identifier {
    /// Of an object below these directories, from the root's child on.
    pub(super) fn new(kind: Kind, (hash, turn): (Hash, Turn), ancestors: &[Hash]) -> Self {
        let depth = u8::try_from(ancestors.len()).unwrap_or(u8::MAX);
        let mut identifier = Self {
            kind,
            turn,
            hash,
            depth,
            hints: [0; HINT_BITS / 8],
        };
        let each = identifier.bits_each();
        for (place, ancestor) in ancestors.iter().take(HINT_BITS).enumerate() {
            let hint = ancestor.hint(each);
            for bit in 0..each {
                let at = place * each + bit;
                if hint >> bit & 1 == 1
                    && let Some(byte) = identifier.hints.get_mut(at / 8)
                {
                    *byte |= 1 << (at % 8);
                }
            }
        }
        identifier
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn hash(&self) -> Hash {
        self.hash
    }

    pub(super) fn turn(&self) -> Turn {
        self.turn
    }

    fn bits_each(&self) -> usize {
        let depth = usize::from(self.depth).max(1);
        (HINT_BITS / depth).min(HINT_BITS_EACH_MAX)
    }

    /// Directories between the root and the object; `None`: too many to be searched for.
    pub(super) fn depth(&self) -> Option<usize> {
        let depth = usize::from(self.depth);
        (depth <= HINT_BITS).then_some(depth)
    }

    /// Whether a directory with this hash may be the one at this depth on the way; the root's
    /// children are at 0.
    pub(super) fn may_pass(&self, depth: usize, directory: Hash) -> bool {
        let each = self.bits_each();
        let hint = directory.hint(each);
        (0..each).all(|bit| {
            let at = depth * each + bit;
            let byte = self.hints.get(at / 8).copied().unwrap_or(0);
            u16::from(byte >> (at % 8) & 1) == hint >> bit & 1
        })
    }

    pub(super) fn to_id(self) -> FileId {
        let bits = self.bits_each() * usize::from(self.depth).min(HINT_BITS);
        let mut bytes = [0; SERVED_ID_BYTES_MAX];
        bytes[0] = LAYOUT;
        let [low, high] = (self.turn.0 << 2 | self.kind as u16).to_le_bytes();
        (bytes[1], bytes[2], bytes[3]) = (low, self.depth, high);
        bytes[4..HEAD_BYTES].copy_from_slice(&self.hash.0);
        bytes[HEAD_BYTES..].copy_from_slice(&self.hints);
        let length = HEAD_BYTES + bits.div_ceil(8);
        FileId::new(&bytes[..length.min(bytes.len())]).unwrap_or_else(|| FileId::of(&bytes))
    }

    /// [`Error::BadId`] for what this layout never gave.
    pub(super) fn of_id(id: &FileId) -> Result<Self> {
        let bytes = id.as_bytes();
        let (head, hints) = bytes
            .split_first_chunk::<HEAD_BYTES>()
            .ok_or(Error::BadId)?;
        let [_, low, depth, high, hash @ ..] = *head;
        let word = u16::from_le_bytes([low, high]);
        let kind = match word & 3 {
            1 => Kind::Directory,
            2 => Kind::File,
            _ => return Err(Error::BadId),
        };
        let mut identifier = Self {
            kind,
            turn: Turn(word >> 2),
            hash: Hash(hash),
            depth,
            hints: [0; HINT_BITS / 8],
        };
        let place = identifier
            .hints
            .get_mut(..hints.len())
            .ok_or(Error::BadId)?;
        place.copy_from_slice(hints);
        Error::BadId.unless(head[0] == LAYOUT && identifier.to_id() == *id)?;
        Ok(identifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ancestors(count: usize) -> Vec<Hash> {
        let hasher = KeyHasher::new("bucket");
        (0..count)
            .map(|number| hasher.of(&number.to_string()))
            .collect()
    }

    #[test]
    fn identifiers_of_every_depth_come_back_and_know_their_way() {
        let hasher = KeyHasher::new("bucket");
        for depth in [0, 1, 2, 15, 16, 40, 239, 240] {
            let way = ancestors(depth);
            let turn = Turn(TURNS - 1).next().next();
            let made = Identifier::new(Kind::File, (hasher.of("key"), turn), &way);
            let id = made.to_id();
            assert!(id.as_bytes().len() <= SERVED_ID_BYTES_MAX);
            let found = Identifier::of_id(&id).unwrap();
            assert_eq!(found, made);
            assert_eq!((found.depth(), found.turn()), (Some(depth), Turn(1)));
            for (at, directory) in way.iter().enumerate() {
                assert!(found.may_pass(at, *directory));
            }
        }
        let deep = Identifier::new(Kind::File, (hasher.of("key"), Turn(0)), &ancestors(241));
        assert_eq!(Identifier::of_id(&deep.to_id()).unwrap().depth(), None);
    }

    #[test]
    fn hints_keep_other_directories_out() {
        let way = ancestors(3);
        let key = (KeyHasher::new("bucket").of("key"), Turn::default());
        let made = Identifier::new(Kind::Directory, key, &way);
        let others = (100..2100).map(|number| KeyHasher::new("bucket").of(&format!("{number}")));
        let passing = others.filter(|other| made.may_pass(1, *other)).count();
        assert!(passing < 5, "{passing} of 2000");
    }

    #[test]
    fn what_is_no_identifier_is_refused() {
        let key = (hash_of("key"), Turn::default());
        let good = Identifier::new(Kind::File, key, &ancestors(2)).to_id();
        let good = good.as_bytes();
        for (at, value) in [(0, 2), (1, 0), (1, 3), (2, 1)] {
            let mut bytes = good.to_vec();
            bytes[at] = value;
            let id = FileId::new(&bytes).unwrap();
            assert_eq!(Identifier::of_id(&id), Err(Error::BadId), "{at} {value}");
        }
        for length in [0, 1, 19, good.len() - 1] {
            let id = FileId::new(&good[..length]).unwrap();
            assert_eq!(Identifier::of_id(&id), Err(Error::BadId));
        }
    }

    #[test]
    fn buckets_and_keys_have_hashes_of_their_own() {
        let one = KeyHasher::new("one");
        assert_ne!(one.of("a"), KeyHasher::new("two").of("a"));
        assert_ne!(one.of("a"), one.of("b"));
        assert_ne!(KeyHasher::new("ab").of("c"), KeyHasher::new("a").of("bc"));
        assert_eq!(one.of("a"), one.clone().of("a"));
    }
}
