//! The pseudo file system (RFC 7530 section 7.3): the directories that lead to the exports.
//!
//! A directory's number is a hash of its path, the same in every tree and after a restart.

use std::collections::BTreeMap;
use std::hash::Hasher;

use pagewell_fs::{
    Access, Attributes, Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, FileSystem,
    FileType, Limits, ReadReply, Result, Statistics, Timestamp, access, name,
};
use siphasher::sip::SipHasher13;

/// Other names have their numbers, which are larger, as cookies.
const COOKIE_SELF: u64 = 1;
const COOKIE_PARENT: u64 = 2;

const ROOT: u64 = 1 << 62;

/// A read-only tree of directories.
pub struct PseudoTree {
    directories: BTreeMap<u64, Place>,
    made: Timestamp,
}

struct Place {
    parent: u64,
    name: Vec<u8>,
}

impl PseudoTree {
    /// The directories on these paths (lists of names), with one time for all.
    pub fn new<'p>(paths: impl IntoIterator<Item = Vec<&'p [u8]>>, made: Timestamp) -> Self {
        let root = Place {
            parent: ROOT,
            name: Vec::new(),
        };
        let mut directories = BTreeMap::from([(ROOT, root)]);
        for path in paths {
            path.into_iter().fold(ROOT, |parent, name| {
                let number = below(parent, name);
                let name = name.to_vec();
                directories.insert(number, Place { parent, name });
                number
            });
        }
        Self { directories, made }
    }

    /// Of a path, in every tree.
    pub fn id_of(path: &[&[u8]]) -> FileId {
        let number = path.iter().fold(ROOT, |parent, name| below(parent, name));
        id(number)
    }

    /// Whether the tree has a directory.
    pub fn contains(&self, id: &FileId) -> bool {
        self.find(id).is_ok()
    }

    fn find(&self, id: &FileId) -> Result<(u64, &Place)> {
        let number = id.as_bytes().try_into().map(u64::from_be_bytes);
        let number = number.map_err(|_| Error::BadId)?;
        let place = self.directories.get(&number).ok_or(Error::Stale)?;
        Ok((number, place))
    }

    fn children(&self, parent: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let all = self.directories.iter();
        all.filter(move |(number, place)| place.parent == parent && **number != ROOT)
            .map(|(number, place)| (*number, &*place.name))
    }

    fn attributes_of(&self, number: u64) -> Attributes {
        let children = self.children(number).count();
        Attributes {
            file_type: FileType::Directory,
            mode: 0o555,
            link_count: u32::try_from(children).map_or(u32::MAX, |count| count.saturating_add(2)),
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: (0, 0),
            filesystem_id: ROOT,
            file_id: number,
            accessed: self.made,
            modified: self.made,
            changed: self.made,
            may_be_kept: true,
        }
    }
}

/// A unique cookie, positive as a signed number.
fn below(parent: u64, name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(parent, 0);
    hasher.write(name);
    hasher.finish() >> 2 | ROOT
}

fn id(number: u64) -> FileId {
    FileId::of(&number.to_be_bytes())
}

impl FileSystem for PseudoTree {
    fn describe(&self) -> String {
        "directories above exports".to_owned()
    }

    fn root(&self) -> FileId {
        id(ROOT)
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn lookup(&self, _call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        name::check(name)?;
        let (number, place) = self.find(directory)?;
        let found = match name {
            b"." => number,
            b".." => place.parent,
            name => below(number, name),
        };
        if !self.directories.contains_key(&found) {
            return Err(Error::NotFound);
        }
        Ok(Entry {
            id: id(found),
            attributes: self.attributes_of(found),
        })
    }

    fn attributes(&self, _call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let (number, _) = self.find(id)?;
        Ok(self.attributes_of(number))
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let attributes = self.attributes(call, id)?;
        let granted = access::granted(call.credentials, &attributes, wanted);
        Ok((granted, attributes))
    }

    fn read_link(&self, _call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        self.find(id)?;
        Err(Error::Invalid)
    }

    fn read(&self, _call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<ReadReply> {
        self.find(id)?;
        Err(Error::IsDirectory)
    }

    /// In the order of cookies. Entries have no objects, as a name may lead to an export.
    fn read_directory(
        &self,
        _call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        _with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let (number, place) = self.find(directory)?;
        let own = [
            (COOKIE_SELF, number, &b"."[..]),
            (COOKIE_PARENT, place.parent, b".."),
        ];
        let children = self
            .children(number)
            .map(|(child, name)| (child, child, name));
        let mut entries = own.into_iter().chain(children);
        let end = entries.all(|(at, file_id, name)| {
            at <= cookie
                || visit(&DirectoryEntry {
                    name,
                    file_id,
                    cookie: at,
                    entry: None,
                })
        });
        Ok(DirectoryPage {
            attributes: self.attributes_of(number),
            end,
            unusable: 0,
        })
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics {
            files_total: self.directories.len() as u64,
            ..Statistics::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::Credentials;

    fn tree(paths: &[&[&[u8]]]) -> PseudoTree {
        let paths = paths.iter().map(|path| path.to_vec());
        PseudoTree::new(paths, Timestamp::default())
    }

    #[test]
    fn a_directory_has_one_identifier_in_every_tree() {
        let path: &[&[u8]] = &[b"b", b"c"];
        let (small, large) = (tree(&[path]), tree(&[&[b"a"], path, &[b"b"], path]));
        let credentials = Credentials::root();
        let call = Call::new(&credentials, false);
        for tree in [&small, &large] {
            let first = tree.lookup(&call, &tree.root(), b"b").unwrap().id;
            let second = tree.lookup(&call, &first, b"c").unwrap().id;
            assert_eq!(first, PseudoTree::id_of(&[b"b"]));
            assert_eq!(second, PseudoTree::id_of(path));
            assert_eq!(tree.lookup(&call, &second, b"..").unwrap().id, first);
            assert_eq!(tree.lookup(&call, &first, b"..").unwrap().id, tree.root());
        }
        let other = PseudoTree::id_of(&[b"a"]);
        assert_eq!(small.attributes(&call, &other), Err(Error::Stale));
        assert!(large.contains(&other) && !small.contains(&other));
        let foreign = FileId::new(b"foreign").unwrap();
        assert_eq!(small.attributes(&call, &foreign), Err(Error::BadId));
    }
}
