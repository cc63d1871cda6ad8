//! [`FileSystem`] for a bucket, or a folder of a web server: what is read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_cache::Cache;
use pagewell_disk_tier::Tier;
use pagewell_fs::{
    Access, Attributes, Call, Coherence, DirectoryEntry, DirectoryPage, Entry, Error, FileId,
    FileSystem, FileType, Limits, Opened, ReadReply, Result, Statistics, Timestamp, access,
};
use pagewell_object_client::{Remote, Version};

use super::data::Data;
use super::directory::{Asked, Directory};
use super::file::File;
use super::identifier::{Hash, Identifier, KeyHasher, Kind, hash_of};
use super::listing::{DOTS, Found, Item};
use super::listings::{BYTES_MAX, Listings};
use super::node::Node;
use super::nodes::Nodes;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// How long a front may keep answers, at the most: it asks again for what costs no request.
const KEPT_FOR_MAX: Duration = Duration::from_secs(1);
/// A bucket has no size. What programs are shown that ask for it.
const BYTES_TOTAL: u64 = 1 << 50;
/// Directories that are listed to find one object again.
const SEARCHED_MAX: usize = 10_000;

/// See the module's text.
pub struct ObjectFileSystem {
    data: Data,
    nodes: Nodes,
    listings: Box<Listings>,
    hasher: KeyHasher,
    root: Arc<Node>,
    /// How long a listing is believed.
    age: Duration,
    owner: (u32, u32),
}

/// An open file. Dropped, it is closed.
struct Open(Arc<Node>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(file) = self.0.file() {
            file.close();
        }
    }
}

impl ObjectFileSystem {
    /// What is below `prefix`, which is empty or ends with a slash; `bucket` tells its keys from
    /// those of others, whatever way leads there. A listing is believed for `age`. Pages go through
    /// `cache`, and behind it to the tier.
    #[must_use]
    pub fn new(
        remote: Arc<dyn Remote>,
        (bucket, prefix): (&str, &str),
        age: Duration,
        (cache, tier): (&Cache, Option<Arc<Tier>>),
    ) -> Self {
        let hasher = KeyHasher::new(bucket);
        let root = Arc::new(Node::new(Kind::Directory, hasher.of(prefix), prefix, None));
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Self {
            data: Data::new(remote, cache, tier),
            nodes: Nodes::default(),
            listings: Box::new(Listings::new(BYTES_MAX)),
            hasher,
            root,
            age,
            owner: (user.as_raw(), group.as_raw()),
        }
    }

    fn asked<'a>(&'a self, call: &Call<'_>, directory: &'a Node) -> Asked<'a> {
        Asked {
            remote: &**self.data.remote(),
            key: directory.key(),
            age: self.age,
            since: Instant::now(),
            may_block: call.may_block,
        }
    }

    /// The object of an identifier, searched for where memory has it no more.
    fn resolve(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Node>> {
        let identifier = Identifier::of_id(id)?;
        if identifier.hash() == self.root.hash() {
            return Ok(self.root.clone());
        }
        if let Some(node) = self.nodes.get(identifier.hash(), identifier.kind()) {
            return Ok(node);
        }
        let depth = identifier.depth().ok_or(Error::Stale)?;
        let mut searched = 0;
        let mut left = vec![(self.root.clone(), 0)];
        while let Some((node, level)) = left.pop() {
            searched += 1;
            if searched > SEARCHED_MAX {
                return Err(Error::Stale);
            }
            let Some(directory) = node.directory() else {
                continue;
            };
            let mut found = None;
            let read = directory.read(self.asked(call, &node), 0, &mut |item, at| {
                let is_directory = item.found == Found::Directory;
                let hash = self.hash(&node, item);
                let is_it =
                    level == depth && hash == identifier.hash() && item.kind() == identifier.kind();
                if is_it {
                    found = Some(self.child(&node, item, at));
                } else if level < depth && is_directory && identifier.may_pass(level, hash) {
                    left.push((self.child(&node, item, at), level + 1));
                }
                !is_it
            });
            // It may have gone since it was listed.
            if read != Err(Error::NotFound) {
                read?;
            }
            self.listings.count(&node);
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(Error::Stale)
    }

    /// The directory of an identifier.
    fn directory(&self, call: &Call<'_>, id: &FileId) -> Result<Arc<Node>> {
        let node = self.resolve(call, id)?;
        Error::NotDirectory.unless(node.directory().is_some())?;
        Ok(node)
    }

    fn hash(&self, directory: &Node, item: &Item) -> Hash {
        let key = item.key(directory.key());
        self.hasher.of_object(item.kind(), &key)
    }

    /// The object of a name in a directory, which was so at this time.
    fn child(&self, parent: &Arc<Node>, item: &Item, at: Instant) -> Arc<Node> {
        let key = item.key(parent.key());
        let kind = item.kind();
        let hash = self.hasher.of_object(kind, &key);
        let make = || Node::new(kind, hash, &key, Some(parent));
        let node = self.nodes.get_or_make(hash, kind, make);
        if let (Found::File(version), Some(file)) = (&item.found, node.file()) {
            file.see(version, at);
        }
        node
    }

    /// Attributes that are believed, or asked for now.
    fn attributes_of(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<Attributes> {
        let Some(file) = node.file() else {
            return Ok(self.of_directory(node));
        };
        if let Some(version) = file.fresh(self.age) {
            return Ok(self.of_file(node, &version));
        }
        let parent = node.parent();
        let own = node.key().strip_prefix(parent.key()).unwrap_or_default();
        let listed = parent
            .directory()
            .and_then(|directory| directory.remembered(own.as_bytes(), self.age));
        if let Some((item, at)) = listed
            && item.segment.is_none()
            && let Found::File(version) = item.found
        {
            file.see(&version, at);
            let version = file.known().unwrap_or(version);
            return Ok(self.of_file(node, &version));
        }
        Error::WouldBlock.unless(call.may_block)?;
        let version = file.ask(node.key(), &self.data).map_err(gone)?;
        Ok(self.of_file(node, &version))
    }

    fn of_directory(&self, node: &Node) -> Attributes {
        let changed = node.directory().map(Directory::changed);
        let changed = changed.unwrap_or_default();
        Attributes {
            file_type: FileType::Directory,
            mode: DIRECTORY_MODE,
            link_count: 2,
            accessed: changed,
            modified: changed,
            changed,
            ..self.of_file(
                node,
                &Version {
                    etag: None,
                    last_modified: None,
                    length_bytes: 0,
                },
            )
        }
    }

    fn of_file(&self, node: &Node, version: &Version) -> Attributes {
        let modified = version
            .last_modified
            .map(Timestamp::from)
            .unwrap_or_default();
        // Versions of one second differ in this.
        let (tag, _) = hash_of(version.etag.as_deref().unwrap_or_default()).halves();
        let nanoseconds = u32::try_from(tag % 1_000_000_000).unwrap_or(0);
        Attributes {
            file_type: FileType::Regular,
            mode: FILE_MODE,
            link_count: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            size: version.length_bytes,
            used: version.length_bytes,
            device: (0, 0),
            filesystem_id: self.root.hash().number(),
            file_id: node.hash().number(),
            accessed: modified,
            modified,
            changed: Timestamp {
                nanoseconds,
                ..modified
            },
            may_be_kept: true,
        }
    }

    fn entry(&self, node: &Arc<Node>, found: &Found) -> Entry {
        Entry {
            id: node.id(),
            attributes: match found {
                Found::Directory => self.of_directory(node),
                // What was seen may be newer, or know more of the same version.
                Found::File(version) => match node.file().and_then(File::known) {
                    Some(seen) => self.of_file(node, &seen),
                    None => self.of_file(node, version),
                },
            },
        }
    }
}

/// An object that an identifier names, and that is not there any more.
fn gone(error: Error) -> Error {
    match error {
        Error::NotFound => Error::Stale,
        other => other,
    }
}

impl FileSystem for ObjectFileSystem {
    fn describe(&self) -> String {
        self.data.remote().describe()
    }

    fn root(&self) -> FileId {
        self.root.id()
    }

    fn limits(&self) -> Limits {
        Limits {
            coherence: Coherence::same(self.age.min(KEPT_FOR_MAX)),
            ..Limits::default()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let node = self.directory(call, directory)?;
        access::check(call.credentials, &self.of_directory(&node), Access::LOOKUP)?;
        match name {
            b"." => Ok(self.entry(&node, &Found::Directory)),
            b".." => Ok(self.entry(node.parent(), &Found::Directory)),
            _ => {
                let listed = node.directory().ok_or(Error::NotDirectory)?;
                let item = listed.find(self.asked(call, &node), name);
                self.listings.count(&node);
                let (item, at) = item?;
                Ok(self.entry(&self.child(&node, &item, at), &item.found))
            }
        }
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        self.attributes_of(call, &self.resolve(call, id)?)
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let attributes = self.attributes_of(call, &self.resolve(call, id)?)?;
        let granted = access::granted(call.credentials, &attributes, wanted);
        Ok((granted, attributes))
    }

    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        self.resolve(call, id)?;
        Err(Error::Invalid)
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        let node = self.resolve(call, id)?;
        let file = node.file().ok_or(Error::IsDirectory)?;
        let mode_only = self.of_directory(&node);
        let mode_only = Attributes {
            mode: FILE_MODE,
            file_type: FileType::Regular,
            ..mode_only
        };
        access::check_read(call.credentials, &mode_only)?;
        let read = file.read(node.key(), &self.data, (offset, count), call.may_block);
        let read = read.map_err(gone)?;
        let end = offset.saturating_add(read.payload.len() as u64);
        Ok(ReadReply {
            end_of_file: end >= read.version.length_bytes,
            payload: read.payload,
            attributes: self.of_file(&node, &read.version),
        })
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let node = self.directory(call, directory)?;
        let attributes = self.of_directory(&node);
        access::check(call.credentials, &attributes, Access::READ)?;
        let page = |end, unusable| DirectoryPage {
            attributes,
            end,
            unusable,
        };
        let dots = [(&b"."[..], &node), (b"..", node.parent())];
        for ((name, object), at) in dots.into_iter().zip(1..).filter(|(_, at)| *at > cookie) {
            let entry = self.entry(object, &Found::Directory);
            let taken = visit(&DirectoryEntry {
                name,
                file_id: entry.attributes.file_id,
                cookie: at,
                entry: with_attributes.then_some(entry),
            });
            if !taken {
                return Ok(page(false, 0));
            }
        }
        let listed = node.directory().ok_or(Error::NotDirectory)?;
        let read = listed.read(
            self.asked(call, &node),
            cookie.max(DOTS),
            &mut |item, at| {
                let entry =
                    with_attributes.then(|| self.entry(&self.child(&node, item, at), &item.found));
                visit(&DirectoryEntry {
                    name: &item.name,
                    file_id: self.hash(&node, item).number(),
                    cookie: item.cookie,
                    entry,
                })
            },
        );
        self.listings.count(&node);
        let (end, unusable) = read.map_err(gone)?;
        Ok(page(end, unusable))
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics {
            bytes_total: BYTES_TOTAL,
            ..Statistics::default()
        })
    }

    /// Begins with the version that the remote has now. Where memory has none of its bytes, the
    /// first request of them shows whether it is still there.
    fn open(&self, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let node = self.resolve(call, id)?;
        let Some(file) = node.file() else {
            return Ok(Opened::plain(self.of_directory(&node)));
        };
        let has_pages = file.has_pages();
        let attributes = if has_pages && !file.was_just_silent() {
            Error::WouldBlock.unless(call.may_block)?;
            let version = file.ask(node.key(), &self.data).map_err(gone)?;
            self.of_file(&node, &version)
        } else {
            self.attributes_of(call, &node)?
        };
        let keep_cache = file.open(has_pages);
        Ok(Opened {
            attributes,
            keep_cache,
            file: None,
            hold: Some(Box::new(Open(node))),
        })
    }
}
