//! A mounted export as a [`FileSystem`], and its parts.

use std::cell::Cell;
use std::sync::Arc;

use pagewell_cache::CachedStore;
use pagewell_fs::{
    Access, Attributes, Call, Change, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, Error, FileId, FileSystem, Finish, Hold, Limits, NodeKind, RenameMode,
    Result, SetAttributes, Statistics, Timestamp, forward,
};
use pagewell_sunrpc::client::ProcedureStatistics;

use super::data::Data;
use super::listing::Lister;
use super::lookup::Namespace;
use super::make::Maker;
use super::objects::Objects;
use super::opening::Openings;
use super::remote::Remote;
use super::unlink::Remover;

/// A mounted export. Dropping it sends everything to the server and unmounts.
pub struct NfsFileSystem {
    limits: Limits,
    objects: Arc<Objects>,
    data: Arc<Data>,
    namespace: Arc<Namespace>,
    lister: Lister,
    maker: Maker,
    remover: Arc<Remover>,
    openings: Openings,
}

impl NfsFileSystem {
    /// `directory_bytes`: of a READDIR.
    pub(super) fn new(
        objects: Arc<Objects>,
        remote: Arc<Remote>,
        store: CachedStore,
        limits: Limits,
        directory_bytes: u32,
    ) -> Self {
        let data = Arc::new(Data::new(objects.clone(), remote, store));
        let namespace = Arc::new(Namespace::new(objects.clone()));
        let remover = Arc::new(Remover::new(objects.clone(), namespace.clone()));
        Self {
            limits,
            lister: Lister::new(objects.clone(), namespace.clone(), directory_bytes),
            maker: Maker::new(objects.clone(), namespace.clone(), data.clone()),
            openings: Openings::new(data.clone(), remover.clone()),
            objects,
            data,
            namespace,
            remover,
        }
    }

    /// Its data in the page cache.
    #[must_use]
    pub fn store(&self) -> &CachedStore {
        self.data.store()
    }

    /// The costs of its calls, by procedure.
    #[must_use]
    pub fn statistics_of_calls(&self) -> Vec<ProcedureStatistics> {
        self.objects.calls().client().statistics().procedures()
    }

    /// Of one READ and of one WRITE.
    #[must_use]
    pub fn transfer_bytes(&self) -> (u32, u32) {
        self.data.transfer_bytes()
    }
}

impl Drop for NfsFileSystem {
    fn drop(&mut self) {
        if !self.objects.calls().have_ended() {
            if let Err(error) = self.data.sync() {
                let name = self.objects.calls().name();
                tracing::error!(source = name, %error, "{name}: {error}");
            }
            self.data.end();
            self.objects.root().unmount();
        }
    }
}

impl std::fmt::Debug for NfsFileSystem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.describe())
    }
}

/// Methods that a part has by the same name: called again when the object is the root and was
/// stale.
macro_rules! with_root {
    ($($part:ident.$method:ident($id:ident $(, $argument:ident: $type:ty)*) -> $done:ty;)+) => {
        $(fn $method(&self, call: &Call<'_>, $id: &FileId, $($argument: $type),*) -> Result<$done> {
            let work = || self.$part.$method(call, $id, $($argument),*);
            self.objects.with_root(call, &[$id], work)
        })+
    };
}

impl FileSystem for NfsFileSystem {
    forward! { self => self.objects; read_link }
    forward! { self => self.data; read, write, write_verifier }
    forward! { self => self.openings; open, close }

    with_root! {
        namespace.lookup(directory, name: &[u8]) -> Entry;
        data.attributes(id) -> Attributes;
        data.set_attributes(id, wanted: &SetAttributes, guard: Option<Timestamp>) -> Change;
        objects.access(id, wanted: Access) -> (Access, Attributes);
        maker.create(directory, name: &[u8], mode: &CreateMode) -> Created;
        maker.make_directory(directory, name: &[u8], wanted: &SetAttributes) -> Created;
        maker.make_symlink(
            directory, name: &[u8], target: &[u8], wanted: &SetAttributes
        ) -> Created;
        maker.make_node(
            directory, name: &[u8], kind: NodeKind, wanted: &SetAttributes
        ) -> Created;
        remover.remove(directory, name: &[u8]) -> Change;
        remover.remove_directory(directory, name: &[u8]) -> Change;
    }

    fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        let work = || self.maker.link(call, id, directory, name);
        self.objects.with_root(call, &[directory], work)
    }

    fn rename(
        &self,
        call: &Call<'_>,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        Error::Invalid.unless(mode == RenameMode::Replace)?;
        let work = || self.remover.rename(call, from.0, from.1, to.0, to.1);
        self.objects.with_root(call, &[from.0, to.0], work)
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let begun = Cell::new(false);
        let mut visit = |entry: &DirectoryEntry<'_>| {
            begun.set(true);
            visit(entry)
        };
        let list = || {
            // No entry is shown twice.
            Error::Stale.when(begun.get())?;
            self.lister
                .read_directory(call, directory, cookie, with_attributes, &mut visit)
        };
        self.objects.with_root(call, &[directory], list)
    }

    fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        let root = self.objects.root().id();
        let work = || self.objects.statistics(call);
        self.objects.with_root(call, &[root], work)
    }

    fn describe(&self) -> String {
        format!("nfs {}", self.objects.calls().name())
    }

    fn root(&self) -> FileId {
        *self.objects.root().id()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<Committed> {
        self.data.commit(call, id)
    }

    fn finish(&self, how: Finish) -> Result<u64> {
        match how {
            Finish::Sync => self.data.sync().map(|()| 0),
            Finish::Within(patience) => match self.data.store().close_within(patience) {
                // Nothing is discarded any more, so there is nothing to wait for.
                0 => self.data.unreported_failure().map(|()| 0),
                lost_bytes => {
                    self.finish(Finish::Abandon)?;
                    Ok(lost_bytes)
                }
            },
            Finish::Abandon => {
                let lost_bytes = self.data.store().abandon();
                self.data.end();
                Ok(lost_bytes)
            }
        }
    }

    fn hold(&self, _call: &Call<'_>, id: &FileId) -> Result<Option<Hold>> {
        Ok(Some(self.openings.hold_directory(id)))
    }
}
