//! Files that are changed, over a store in memory.

mod ahead;
mod between;
mod files;
mod metadata;
mod names;
mod opens;
mod random;
mod two_gateways;
mod walks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions};
use pagewell_fs::{
    Call, CreateMode, Credentials, Error, FileId, FileSystem, Finish, RenameMode, Result,
    SetAttributes, Stability,
};
use pagewell_object_client::{Acknowledge, Defaults, Handling, MetadataFrom, Remote};
use pagewell_staging::Staging;
use tempfile::TempDir;

use super::data::Data;
use super::filesystem::ObjectFileSystem;
use super::guard::Guard;
use super::leftovers::Leftovers;
use super::sending::Sender;
use super::testing::{Asked, Store};
use super::tree::Tree;
use super::upload::{Budget, Sizes, Uploader};
use super::writer::Writer;

/// How a gateway is made.
#[derive(Clone, Copy)]
struct How {
    acknowledge: Acknowledge,
    is_at_once: bool,
    age: Duration,
    believes_at_open: bool,
    staging_bytes_max: u64,
    has_metadata: bool,
    defaults: Defaults,
    /// Of a part, and of an object that is sent as a whole; 0: as usual.
    part_bytes: u64,
    copies_parts: bool,
}

impl How {
    fn handling(self) -> Handling {
        Handling {
            acknowledge: self.acknowledge,
            age: self.age,
            believes_at_open: self.believes_at_open,
            metadata: match self.has_metadata {
                true => MetadataFrom::Objects,
                false => MetadataFrom::Listing,
            },
            defaults: self.defaults,
            ..Handling::default()
        }
    }
}

/// As `mount` does it.
const MOUNT: How = How {
    acknowledge: Acknowledge::Store,
    is_at_once: false,
    age: Duration::from_secs(3600),
    believes_at_open: false,
    staging_bytes_max: 1 << 30,
    has_metadata: false,
    defaults: Defaults {
        uid: None,
        gid: None,
        mode: 0o644,
        directory_mode: 0o755,
    },
    part_bytes: 0,
    copies_parts: true,
};

/// One gateway to the store.
struct Gateway {
    files: ObjectFileSystem,
    tree: Arc<Tree>,
    root: Credentials,
}

impl Gateway {
    /// With a staging folder, in which another gateway may have left something.
    fn open(store: &Arc<Store>, folder: &TempDir, how: How) -> Self {
        Self::over(store.clone(), folder.path(), how, true)
    }

    /// The same over any remote; `has_threads`: threads send, too.
    fn over(remote: Arc<dyn Remote>, folder: &Path, how: How, has_threads: bool) -> Self {
        let cache = Cache::new(CacheOptions::new(4 * BYTES_MIN)).unwrap();
        let opened = Staging::open(folder, "bucket", how.staging_bytes_max).unwrap();
        let staging = opened.staging.clone();
        let data = Data::new(remote, &cache, None, Some(staging.clone()));
        let handling = how.handling();
        let tree = Arc::new(Tree::new(data, ("s3://bucket", ""), &handling));
        let mut sizes = Sizes {
            part_bytes_min: 100,
            // Small files go in parts, too, where no thread sends them side by side.
            request_bytes: if has_threads { 1 << 20 } else { 100 },
            ..Sizes::default()
        };
        if how.part_bytes > 0 {
            sizes.part_bytes = how.part_bytes;
            sizes.whole_bytes_max = how.part_bytes;
        }
        let budget = match has_threads {
            true => Budget::default(),
            false => Budget::new(32 << 20, 0),
        };
        let uploader = Uploader::new(sizes, budget, how.copies_parts);
        let mut sender = Sender::new(&tree, &staging, uploader);
        if !has_threads {
            sender = sender.without_threads();
        }
        let how = (handling, how.is_at_once);
        let with = (sender, Leftovers::new(opened.uploads));
        let writer = Writer::new(&tree, Guard::guarded(), with, how);
        if has_threads {
            writer.run();
        }
        writer.resume(opened.journaled);
        Self {
            files: ObjectFileSystem::with_writer(writer),
            tree,
            root: Credentials::root(),
        }
    }

    fn call(&self) -> Call<'_> {
        Call::new(&self.root, true)
    }

    fn find(&self, path: &str) -> Result<FileId> {
        let mut id = self.files.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            id = self.files.lookup(&self.call(), &id, name.as_bytes())?.id;
        }
        Ok(id)
    }

    fn create(&self, path: &str) -> Result<FileId> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.find(parent)?;
        let mode = CreateMode::Guarded(SetAttributes::default());
        let created = self
            .files
            .create(&self.call(), &parent, name.as_bytes(), &mode)?;
        Ok(created.entry.id)
    }

    fn make_directory(&self, path: &str) -> Result<FileId> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.find(parent)?;
        let attributes = SetAttributes::default();
        let files = &self.files;
        let made = files.make_directory(&self.call(), &parent, name.as_bytes(), &attributes)?;
        Ok(made.entry.id)
    }

    fn write(&self, id: &FileId, offset: u64, data: &[u8]) -> Result<()> {
        let written = self
            .files
            .write(&self.call(), id, offset, data, Stability::Unstable)?;
        assert_eq!(written.count as usize, data.len());
        Ok(())
    }

    fn cut(&self, id: &FileId, size: u64) -> Result<()> {
        let attributes = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let set = self
            .files
            .set_attributes(&self.call(), id, &attributes, None);
        set.map(drop)
    }

    fn commit(&self, id: &FileId) -> Result<()> {
        self.files.commit(&self.call(), id, 0, 0).map(drop)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.find(parent)?;
        self.files
            .remove(&self.call(), &parent, name.as_bytes())
            .map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let [from, to] = [from, to].map(|path| path.rsplit_once('/').unwrap_or(("", path)));
        let parents = (self.find(from.0)?, self.find(to.0)?);
        let (from, to) = (
            (&parents.0, from.1.as_bytes()),
            (&parents.1, to.1.as_bytes()),
        );
        let renamed = self
            .files
            .rename(&self.call(), from, to, RenameMode::Replace);
        renamed.map(drop)
    }

    fn read(&self, id: &FileId) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let reply = self
                .files
                .read(&self.call(), id, bytes.len() as u64, 1 << 20)?;
            let mut part = vec![0; reply.payload.len()];
            let copied = reply.payload.copy_to(&mut part, true)?;
            bytes.extend_from_slice(&part[..copied]);
            if reply.end_of_file {
                return Ok(bytes);
            }
        }
    }

    fn names(&self, path: &str) -> Vec<String> {
        let id = self.find(path).unwrap();
        let mut names = Vec::new();
        let mut visit = |entry: &pagewell_fs::DirectoryEntry<'_>| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        };
        let read = self
            .files
            .read_directory(&self.call(), &id, 2, true, &mut visit);
        read.unwrap();
        names
    }
}

/// What was asked since the last time, but for listings and HEADs.
fn changes(store: &Store) -> Vec<Asked> {
    let asked = store.asked().into_iter();
    let is_change = |asked: &Asked| !matches!(asked, Asked::Head(_) | Asked::List(_));
    asked.filter(is_change).collect()
}
