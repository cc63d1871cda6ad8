//! Extended attributes of objects: those of AAIP (`aaip`), and what Mac OS keeps beside a file's
//! data.
//!
//! ```text
//! AA  14  2  type (4)  creator (4)  flags (2)      user.com.apple.FinderInfo, 32 bytes
//! associated file of the same name                 user.com.apple.ResourceFork
//! ```
//!
//! The first is a system use entry of "Apple Extensions to ISO 9660"; the second is a record with
//! the associated flag before the file's own (ECMA-119 clauses 9.1.6 and 9.3).
//!
//! Entries are read at each call. A subdirectory's are in its parent's record of it, unlike its
//! other attributes.
//!
//! Programs that list ask for the attributes of each object, unless a file system has none. So the
//! root directory's first records decide: an announcement of AAIP, an attribute, or an associated
//! file.
//!
//! Weaknesses: an image without any of these in its root shows no attributes, nor a resource fork
//! over 64 KiB, Linux' limit. The mode, which has the mask of access control lists, decides, not
//! the lists.

use std::ffi::{CStr, CString};

use pagewell_fs::extended::{ExtendedAttribute, VALUE_BYTES_MAX, check, is_shown};
use pagewell_fs::{Call, Error, ExtendedAttributes, FileId, Result, access};

use super::file_id::Object;
use super::tree::Tree;
use super::{IsoFileSystem, aaip, read};

const FINDER_INFO: &CStr = c"user.com.apple.FinderInfo";
const FINDER_INFO_BYTES: usize = 32;
const RESOURCE_FORK: &CStr = c"user.com.apple.ResourceFork";
const USER: &[u8] = b"user.";
/// Extension identifier of AAIP in an ER entry, without its version.
const AAIP: &[u8] = b"AAIP";
/// Records of the root directory that are looked at: a few sectors.
const ROOT_RECORDS_MAX: usize = 64;
/// Begin of an AA entry about a file of HFS; type, creator and flags follow.
const APPLE_HFS: &[u8] = b"AA\x0e\x02";

fn all_of(tree: &Tree, object: Object, may_block: bool) -> Result<Vec<ExtendedAttribute>> {
    let mut areas = Vec::new();
    let mut finder_info = None;
    tree.visit_entries(object, may_block, &mut |entry| match entry {
        [b'A', b'L', _, _, _, area @ ..] => areas.extend_from_slice(area),
        _ => finder_info = finder_info.take().or_else(|| finder_info_of(entry)),
    })?;
    let mut found = aaip::attributes(&areas);
    found.extend(finder_info.map(|value| (FINDER_INFO.to_owned(), value)));
    if let Object::File(place) = object
        && let Some(sections) = tree.associated_sections(place, may_block)?
    {
        let length = usize::try_from(read::length_bytes(&sections));
        if let Ok(length @ ..=VALUE_BYTES_MAX) = length {
            let mut value = vec![0; length];
            read::fill(&tree.volume, &sections, 0, &mut value, may_block)?;
            found.push((RESOURCE_FORK.to_owned(), value));
        }
    }
    found.sort_by(|(left, _), (right, _)| left.cmp(right));
    found.dedup_by(|(later, _), (first, _)| later == first);
    Ok(found)
}

pub(super) fn are_possible(tree: &Tree) -> bool {
    let mut found = false;
    let visited = tree.visit_root(ROOT_RECORDS_MAX, &mut |is_associated, entry| {
        let is_announced = match entry {
            [b'E', b'R', _, _, _, _, _, _, identifier @ ..] => identifier.starts_with(AAIP),
            [b'A', b'L', ..] => true,
            _ => entry.starts_with(APPLE_HFS),
        };
        found |= is_associated || is_announced;
    });
    found && visited.is_ok()
}

/// The Finder's form of an AA entry: place and folder, which are not recorded, follow.
fn finder_info_of(entry: &[u8]) -> Option<Vec<u8>> {
    let recorded = entry.strip_prefix(APPLE_HFS)?.get(..10)?;
    let mut info = recorded.to_vec();
    info.resize(FINDER_INFO_BYTES, 0);
    Some(info)
}

impl ExtendedAttributes for IsoFileSystem {
    fn get(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<Vec<u8>> {
        check(name, call.credentials.uid, false)?;
        let (object, node) = self.tree.resolve(id, call.may_block)?;
        if name.to_bytes().starts_with(USER) {
            access::check_read(call.credentials, &node.attributes)?;
        }
        let all = all_of(&self.tree, object, call.may_block)?;
        let found = all.into_iter().find(|(known, _)| known.as_c_str() == name);
        found.map(|(_, value)| value).ok_or(Error::NoData)
    }

    fn names(&self, call: &Call<'_>, id: &FileId) -> Result<Vec<u8>> {
        let (object, _) = self.tree.resolve(id, call.may_block)?;
        let all = all_of(&self.tree, object, call.may_block)?;
        let names = all
            .into_iter()
            .map(|(name, _)| CString::into_bytes_with_nul(name));
        let shown = names.filter(|name| is_shown(name, call.credentials.uid));
        let mut list = Vec::new();
        for name in shown {
            if list.len() + name.len() > VALUE_BYTES_MAX {
                break;
            }
            list.extend(name);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finder_info_has_32_bytes() {
        let entry = b"AA\x0e\x02TEXTttxt\x04\0";
        let info = finder_info_of(entry).unwrap();
        assert_eq!((info.len(), &info[..10]), (32, &b"TEXTttxt\x04\0"[..]));
        assert!(info[10..].iter().all(|byte| *byte == 0));
        for other in [&entry[..13], b"AA\x0e\x01TEXTttxt\x04\0", b"AB", b""] {
            assert_eq!(finder_info_of(other), None);
        }
    }
}
