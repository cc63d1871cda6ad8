//! What a leg is, so that another file or disk in its place is known for what it is.
//!
//! | leg | told by |
//! |---|---|
//! | a regular file | its inode number and the moment at which it was made |
//! | a block device | its [lasting name](super::place): serial number, WWN or UUID |
//! | a stripe | all of its parts |
//! | a mirror in a mirror | the number of that mirror, which its own records keep |
//!
//! An inode number alone is given to the next file as soon as one is removed; the moment is another
//! one, and no program can set it. A file that is renamed keeps both. One that is copied, or
//! moved to another file system, is another file: the operator has to say that it is right.
//!
//! Known weakness: bytes that are copied over those of a leg leave it the file that it was.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::place::{self, Place};
use super::sidecar;
use crate::storage::grammar::Storage;

/// What the system says of a file or device that is not there.
const GONE: [Errno; 5] = [
    Errno::NOENT,
    Errno::NXIO,
    Errno::NODEV,
    Errno::NOMEDIUM,
    Errno::IO,
];

/// A number for what is there; nothing when nothing is.
pub(super) fn of(leg: &Storage) -> Option<u64> {
    if is_absent(leg) {
        return None;
    }
    let number = match leg {
        Storage::Path(path) => of_path(path).unwrap_or_default(),
        Storage::Ram(_) => 0,
        Storage::Model(_, inner) => of(inner)?,
        Storage::Stripe(_, parts) => {
            let numbers = parts.iter().map(of).collect::<Option<Vec<_>>>()?;
            let numbers: Vec<[u8; 8]> = numbers.into_iter().map(u64::to_le_bytes).collect();
            hash(b"stripe", numbers.as_flattened())
        }
        Storage::Mirror(legs) => hash(b"mirror", &number_of_mirror(legs)),
    };
    Some(number)
}

/// Whether a leg is not there, or too little of it to be opened.
pub(crate) fn is_absent(leg: &Storage) -> bool {
    match leg {
        Storage::Path(path) => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, Mode::empty());
            opened.is_err_and(|errno| GONE.contains(&errno))
        }
        Storage::Ram(_) => false,
        Storage::Model(_, inner) => is_absent(inner),
        Storage::Stripe(_, parts) => parts.iter().any(is_absent),
        Storage::Mirror(legs) => legs.iter().all(is_absent),
    }
}

fn of_path(path: &Path) -> Option<u64> {
    let real = path.canonicalize().ok()?;
    let metadata = real.metadata().ok()?;
    if metadata.file_type().is_block_device() {
        let name = place::lasting_name(&real)?;
        return Some(hash(b"device", name.as_encoded_bytes()));
    }
    let made = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let fields = [
        metadata.ino().to_le_bytes(),
        made.as_secs().to_le_bytes(),
        u64::from(made.subsec_nanos()).to_le_bytes(),
    ];
    Some(hash(b"file", fields.as_flattened()))
}

/// What the records of a mirror have in common.
fn number_of_mirror(legs: &[Storage]) -> [u8; 16] {
    let standings = legs.iter().filter_map(|leg| {
        let place = Place::of(leg).ok()?;
        sidecar::read_standing(place.file()?).ok().flatten()
    });
    let numbers = standings.map(|standing| standing.identity);
    numbers.max().unwrap_or_default()
}

fn hash(kind: &[u8], bytes: &[u8]) -> u64 {
    u64::from_le_bytes(sidecar::hash(&[kind, b"\0", bytes].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn parse(text: &str) -> Storage {
        Storage::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_is_known_by_itself_and_not_by_its_name() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let number = |name: &str| of(&Storage::Path(path(name)));
        fs::write(path("a"), "x").unwrap();
        let first = number("a").unwrap();
        fs::write(path("a"), "longer").unwrap();
        assert_eq!(number("a"), Some(first), "written to");
        fs::rename(path("a"), path("b")).unwrap();
        assert_eq!(number("b"), Some(first), "renamed");
        assert_eq!(number("a"), None);
        // Its inode number may come again at once.
        fs::remove_file(path("b")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        fs::write(path("a"), "x").unwrap();
        assert!(
            number("a").is_some_and(|number| number != first),
            "made anew"
        );
    }

    #[test]
    fn a_stripe_is_all_of_its_parts() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name).display().to_string();
        for name in ["a", "b", "c"] {
            fs::write(path(name), "x").unwrap();
        }
        let stripe = |one: &str, other: &str| {
            of(&parse(&format!("stripe:4k:{},{}", path(one), path(other))))
        };
        let whole = stripe("a", "b");
        assert_eq!(whole, stripe("a", "b"));
        assert_ne!(whole, stripe("a", "c"));
        assert_ne!(whole, stripe("b", "a"));
        assert_eq!(stripe("a", "gone"), None);
        let mirror = |one: &str| of(&parse(&format!("mirror:{},{}", path(one), path("gone"))));
        assert!(mirror("a").is_some() && mirror("none").is_none());
        assert_eq!(
            of(&parse(&format!("model:nvme:{}", path("a")))),
            of(&parse(&path("a")))
        );
    }
}
