//! The choice among an image's trees.
//!
//! Rock Ridge has POSIX names and attributes, Joliet whole names, the plain tree neither: in this
//! order. A tree whose root directory is unreadable, or empty while another's is not, is skipped;
//! writers have produced both.
//!
//! Some images have a UDF file system and an ISO tree with only a note about it. The note alone
//! would look like a right answer, so such an image is refused.

use std::sync::Arc;

use pagewell_cache::Cache;
use pagewell_device::Device;
use pagewell_fs::source::OpenError;
use pagewell_fs::{Error, FileType, Result};
use pagewell_source_bytes::{Bytes, Window};

use super::descriptor::{Descriptors, NotIso, Readable, examine, has_udf_anchor};
use super::file_id::{Object, TreeKind};
use super::options::IsoOptions;
use super::record::{IDENTIFIER_SELF, Record, RecordCursor};
use super::rock_ridge::{Skips, announced};
use super::susp::Continuation;
use super::tree::Tree;
use super::volume::{SECTOR_BYTES, Volume};

/// A note has at most so many files, and bytes in all.
const NOTE_FILES_MAX: usize = 2;
const NOTE_BYTES_MAX: u64 = 64 << 10;

pub(super) fn open(
    device: &Arc<dyn Device>,
    cache: &Cache,
    options: &IsoOptions,
) -> Result<Tree, OpenError> {
    let refuse = |reason: String| OpenError::new(device.name(), &reason);
    let failed = |error: Error| refuse(error.trouble().unwrap_or(&error.to_string()).to_owned());
    let bytes = Bytes::new(cache.open(device.clone()));
    let image = Readable {
        length_bytes: bytes.length_bytes(),
        read: &|position, target| bytes.read(position, target, true),
    };
    let descriptors = match examine(&image).map_err(failed)? {
        Ok(descriptors) => descriptors,
        Err(NotIso::Unsupported(what)) => return Err(refuse(format!("{what} is not supported"))),
        Err(NotIso::Unknown(why)) => {
            return Err(refuse(format!("not an ISO 9660 image: {why}")));
        }
    };
    if !(512..=32768).contains(&descriptors.block_bytes)
        || !descriptors.block_bytes.is_power_of_two()
    {
        return Err(refuse(format!(
            "not an ISO 9660 image: logical blocks of {} bytes",
            descriptors.block_bytes
        )));
    }
    let tree = choose(&bytes, &descriptors, *options).map_err(refuse)?;
    let may_be_note = descriptors.has_udf && is_note(&tree);
    if may_be_note && has_udf_anchor(&image).map_err(failed)? {
        return Err(refuse(
            "its files are in a UDF file system, which is not supported".to_owned(),
        ));
    }
    Ok(tree)
}

fn choose(bytes: &Bytes, descriptors: &Descriptors, options: IsoOptions) -> Result<Tree, String> {
    let volume = || Volume {
        bytes: bytes.clone(),
        length_bytes: bytes.length_bytes(),
        block_bytes: descriptors.block_bytes,
        identity: descriptors.identity,
    };
    let primary = descriptors.primary_root.as_ref();
    let joliet = descriptors.joliet_root.as_ref();
    let skips = primary.and_then(|root| rock_ridge_skips(&volume(), root));
    let with_skips = primary.filter(|_| skips.is_some());
    let candidates = [
        with_skips.map(|root| (TreeKind::RockRidge, root, skips)),
        joliet.map(|root| (TreeKind::Joliet, root, None)),
        primary.map(|root| (TreeKind::Plain, root, None)),
    ];
    let mut empty = None;
    let mut reason = None;
    for (kind, root, skips) in candidates.into_iter().flatten() {
        let tree = Tree::new(volume(), kind, root, (skips, options));
        match tree.directory(tree.root, true) {
            Ok(directory) if directory.items().is_empty() => empty = empty.or(Some(tree)),
            Ok(_) => return Ok(tree),
            Err(error) => reason = reason.or(Some(format!("root directory unreadable: {error}"))),
        }
    }
    let nothing = "not an ISO 9660 image: no root directory";
    empty.ok_or_else(|| reason.unwrap_or_else(|| nothing.to_owned()))
}

/// Looks for Rock Ridge in the root directory's own record; an unreadable one has none.
fn rock_ridge_skips(volume: &Volume, root: &Record) -> Option<Skips> {
    let position = root.data_position(volume);
    let there = volume.length_bytes.saturating_sub(position);
    let length = there.min(SECTOR_BYTES as u64);
    let window = Window::new(&volume.bytes, true, SECTOR_BYTES);
    let mut cursor = RecordCursor::new(window, position, length, 0);
    let (_, own) = cursor.next().ok()??;
    if own.identifier() != IDENTIFIER_SELF {
        return None;
    }
    let mut continuation = Continuation::new(volume, true, (SECTOR_BYTES, 2 << 20));
    announced(own.system_use(), &mut continuation).ok()?
}

/// Whether the root holds only one or two small files.
fn is_note(tree: &Tree) -> bool {
    let Ok(root) = tree.directory(tree.root, true) else {
        return false;
    };
    let mut bytes = 0;
    let only_files = root.items().iter().all(|item| {
        let object = root.object_of(item);
        let node = match object {
            Object::File(_) => tree.examine(object, true).ok(),
            _ => None,
        };
        node.is_some_and(|node| {
            bytes += node.attributes.size;
            node.attributes.file_type == FileType::Regular
        })
    });
    root.items().len() <= NOTE_FILES_MAX && only_files && bytes <= NOTE_BYTES_MAX
}
