//! The choice among the sessions and trees of an image.
//!
//! Rock Ridge has POSIX names and attributes, ISO 9660:1999 names of 207 bytes, Joliet of 64 to 103
//! characters, the plain tree neither. By default the first in this order with a readable root is
//! served.
//!
//! Weakness: the content of a tree does not count, although some writers make trees that are empty
//! or only refer to another.

use std::sync::Arc;

use pagewell_fs::source::OpenError;
use pagewell_fs::{Error, Result};
use pagewell_source_bytes::{Bytes, Readable, Violations};

use super::checks;
use super::descriptor::Descriptor;
use super::descriptor_set::{DescriptorSet, NotIso, examine};
use super::file_id::TreeKind;
use super::options::{IsoOptions, Session};
use super::record::{IDENTIFIER_SELF, Record, RecordCursor};
use super::rock_ridge::{Skips, announced};
use super::sessions::{self, Found};
use super::susp::Continuation;
use super::tree::Tree;
use super::volume::{SECTOR_BYTES, Volume};

/// Of system use entries of the root directory.
const CONTINUATION_BYTES_MAX: u64 = 2 << 20;

#[derive(Clone, Copy)]
pub(super) struct Announced<'a> {
    pub kind: TreeKind,
    pub descriptor: &'a Descriptor,
    pub root: &'a Record,
    pub skips: Option<Skips>,
}

pub(super) fn with_image<R>(
    bytes: &Bytes,
    work: impl FnOnce(&Readable<'_, Error>) -> Result<R>,
) -> Result<R> {
    work(&Readable {
        length_bytes: bytes.length_bytes(),
        read: &|position, target| bytes.read(position, target, true),
    })
}

pub(super) fn session(bytes: &Bytes, session: Session) -> Result<Found, OpenError> {
    let refuse = |reason: String| OpenError::new(bytes.name(), &reason);
    let failed = |error: Error| refuse(error.trouble().unwrap_or(&error.to_string()).to_owned());
    let set = match with_image(bytes, examine).map_err(failed)? {
        Ok(set) => set,
        Err(NotIso(why)) => {
            return Err(refuse(format!("not an ISO 9660 image: {why}")));
        }
    };
    let number = match session {
        Session::Default => return Ok(Found { start: 0, set }),
        Session::Last => None,
        Session::Number(number) => Some(number),
    };
    let mut all = with_image(bytes, sessions::find).map_err(failed)?;
    let count = all.len();
    let number = number.map_or(count, |number| number as usize);
    let index = number.checked_sub(1).filter(|index| *index < count);
    let index = index.ok_or_else(|| refuse(format!("no session {number}: it has {count}")))?;
    Ok(all.swap_remove(index))
}

pub(super) fn announced_trees<'a>(bytes: &Bytes, set: &'a DescriptorSet) -> Vec<Announced<'a>> {
    let of = |descriptor: &'a Option<Descriptor>, kind: TreeKind| {
        let descriptor = descriptor
            .as_ref()
            .filter(|found| found.has_sound_blocks())?;
        let root = descriptor.root.as_ref()?;
        Some(Announced {
            kind,
            descriptor,
            root,
            skips: None,
        })
    };
    let plain = of(&set.primary, TreeKind::Plain);
    let rock_ridge = plain.and_then(|plain| {
        let volume = volume(bytes, set, plain.descriptor, None);
        let skips = Some(rock_ridge_skips(&volume, plain.root)?);
        Some(Announced {
            kind: TreeKind::RockRidge,
            skips,
            ..plain
        })
    });
    let enhanced = of(&set.enhanced, TreeKind::Enhanced);
    let joliet = of(&set.joliet, TreeKind::Joliet);
    let all = [rock_ridge, enhanced, joliet, plain];
    all.into_iter().flatten().collect()
}

fn volume(
    bytes: &Bytes,
    set: &DescriptorSet,
    descriptor: &Descriptor,
    violations: Option<Arc<Violations>>,
) -> Volume {
    Volume {
        bytes: bytes.clone(),
        length_bytes: bytes.length_bytes(),
        block_bytes: descriptor.block_bytes,
        identity: set.main().unwrap_or(descriptor).identity,
        is_high_sierra: descriptor.is_high_sierra,
        violations,
    }
}

fn tree(
    bytes: &Bytes,
    set: &DescriptorSet,
    announced: &Announced<'_>,
    options: &IsoOptions,
) -> Tree {
    let volume = volume(bytes, set, announced.descriptor, options.violations.clone());
    let shown = (announced.skips, options.clone());
    Tree::new(volume, announced.kind, announced.root, shown)
}

/// Opens the wanted tree, whose root may be unreadable, or the first with a readable root, which is
/// read first for its letters (`names`).
pub(super) fn open(bytes: &Bytes, options: &IsoOptions) -> Result<Tree, OpenError> {
    let refuse = |reason: String| OpenError::new(bytes.name(), &reason);
    let chosen = session(bytes, options.session)?;
    if let Some(violations) = &options.violations {
        let length_bytes = bytes.length_bytes();
        checks::descriptors(violations, (chosen.start, &chosen.set), length_bytes);
    }
    let trees = announced_trees(bytes, &chosen.set);
    let is_wanted = |found: &&Announced<'_>| options.tree.is_none_or(|kind| found.kind == kind);
    let mut reason = None;
    for announced in trees.iter().filter(is_wanted) {
        let tree = tree(bytes, &chosen.set, announced, options);
        match tree.directory(tree.root, true) {
            Err(error) if options.tree.is_none() => {
                reason.get_or_insert_with(|| format!("root directory unreadable: {error}"));
            }
            Ok(_) | Err(_) => return Ok(tree),
        }
    }
    Err(refuse(reason.unwrap_or_else(|| match options.tree {
        Some(kind) => format!("it has no {kind} tree"),
        None => missing(&chosen.set),
    })))
}

fn missing(set: &DescriptorSet) -> String {
    match set.main().filter(|main| !main.has_sound_blocks()) {
        Some(main) => format!(
            "not an ISO 9660 image: logical blocks of {} bytes",
            main.block_bytes
        ),
        None => "not an ISO 9660 image: no root directory".to_owned(),
    }
}

/// Looks for Rock Ridge in the root directory's own record; an unreadable one has none.
fn rock_ridge_skips(volume: &Volume, root: &Record) -> Option<Skips> {
    let position = root.data_position(volume);
    let there = volume.length_bytes.saturating_sub(position);
    let length = there.min(SECTOR_BYTES as u64);
    let mut cursor = RecordCursor::new(volume, (position, length, 0), (true, SECTOR_BYTES));
    let (_, own) = cursor.next().ok()??;
    if own.identifier() != IDENTIFIER_SELF {
        return None;
    }
    let mut continuation = Continuation::new(volume, true, (SECTOR_BYTES, CONTINUATION_BYTES_MAX));
    announced(own.system_use(), &mut continuation).ok()?
}
