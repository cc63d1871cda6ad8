//! File systems that stall, fail and count: a layer over another one that sees each call first.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_fs::{
    Access, Attributes, Call, Change, Coherence, Committed, CreateMode, Created, Credentials,
    DirectoryEntry, DirectoryPage, Entry, Error, FileId, FileSystem, Limits, NodeKind, ReadReply,
    RenameMode, Result, SetAttributes, Stability, Statistics, Timestamp, Written, forward,
};

/// A call on its way to the file system.
pub struct Event<'a> {
    /// The method's name.
    pub operation: &'static str,
    /// The first object named.
    pub id: FileId,
    pub may_block: bool,
    /// The user it is made for.
    pub uid: u32,
    /// Of a listing: the cookie.
    pub offset: u64,
    pub count: usize,
    pub name: &'a [u8],
    /// A write that is to be durable when it is answered.
    pub is_stable: bool,
    /// What is to be set, now or of something new.
    pub attributes: SetAttributes,
}

impl Event<'_> {
    /// A call that says no more than this.
    fn of(operation: &'static str, call: &Call<'_>, id: &FileId) -> Self {
        Self {
            operation,
            id: *id,
            may_block: call.may_block,
            uid: call.credentials.uid,
            offset: 0,
            count: 0,
            name: b"",
            is_stable: false,
            attributes: SetAttributes::default(),
        }
    }
}

/// What is done before each call. It may wait when the event says so, and an error is the call's.
pub trait Hook: Send + Sync {
    fn before(&self, event: &Event<'_>) -> Result<()>;

    /// The verifier that clients see instead of the inner one.
    fn verifier(&self, inner: [u8; 8]) -> [u8; 8] {
        inner
    }

    /// What clients see instead of a cookie.
    fn cookie(&self, inner: u64) -> u64 {
        inner
    }

    /// What clients see instead of an entry of a directory, if anything.
    fn entry<'e>(&self, inner: &DirectoryEntry<'e>) -> Option<DirectoryEntry<'e>> {
        let cookie = self.cookie(inner.cookie);
        Some(DirectoryEntry { cookie, ..*inner })
    }

    /// What is done when a directory was listed, before it is answered.
    fn listed(&self) {}

    /// How stable a write is made, whatever was asked for.
    fn stability(&self, asked: Stability) -> Stability {
        asked
    }

    /// What clients see instead of what a write has done.
    fn written(&self, inner: Written) -> Written {
        inner
    }

    /// What clients see instead of what a read has found.
    fn reply(&self, inner: ReadReply) -> ReadReply {
        inner
    }
}

/// A file system behind a hook.
pub struct Layer<H> {
    pub inner: Arc<dyn FileSystem>,
    pub hook: Arc<H>,
}

impl<H: Hook> Layer<H> {
    pub fn new(inner: Arc<dyn FileSystem>, hook: H) -> (Arc<Self>, Arc<H>) {
        let hook = Arc::new(hook);
        let layer = Self {
            inner,
            hook: hook.clone(),
        };
        (Arc::new(layer), hook)
    }
}

/// Makes methods that tell the hook of the call, with these parts of its event, and then do it.
macro_rules! hooked {
    ($(fn $method:ident($id:ident: $id_type:ty $(, $argument:ident: $type:ty)*) -> $result:ty
        $({ $($part:ident: $value:expr),+ })?;)+) => {$(
        fn $method(
            &self,
            call: &Call<'_>,
            $id: $id_type,
            $($argument: $type,)*
        ) -> Result<$result> {
            #[allow(unused_mut)] // events without parts of their own
            let mut event = Event::of(stringify!($method), call, $id);
            $($(event.$part = $value;)+)?
            self.hook.before(&event)?;
            self.inner.$method(call, $id $(, $argument)*)
        }
    )+};
}

impl<H: Hook> FileSystem for Layer<H> {
    forward! { self => self.inner;
        describe, root, finish,
    }

    hooked! {
        fn lookup(directory: &FileId, name: &[u8]) -> Entry { name: name };
        fn attributes(id: &FileId) -> Attributes;
        fn set_attributes(
            id: &FileId, attributes: &SetAttributes, guard: Option<Timestamp>
        ) -> Change { attributes: *attributes };
        fn access(id: &FileId, wanted: Access) -> (Access, Attributes);
        fn read_link(id: &FileId) -> (Vec<u8>, Attributes);
        fn create(directory: &FileId, name: &[u8], mode: &CreateMode) -> Created {
            name: name, attributes: set_by(mode)
        };
        fn make_directory(
            directory: &FileId, name: &[u8], attributes: &SetAttributes
        ) -> Created { name: name, attributes: *attributes };
        fn make_symlink(
            directory: &FileId, name: &[u8], target: &[u8], attributes: &SetAttributes
        ) -> Created { name: name, attributes: *attributes };
        fn make_node(
            directory: &FileId, name: &[u8], kind: NodeKind, attributes: &SetAttributes
        ) -> Created { name: name, attributes: *attributes };
        fn link(
            id: &FileId, directory: &FileId, name: &[u8]
        ) -> (Attributes, Change) { name: name };
        fn remove(directory: &FileId, name: &[u8]) -> Change { name: name };
        fn remove_directory(directory: &FileId, name: &[u8]) -> Change { name: name };
    }

    fn limits(&self) -> Limits {
        Limits {
            coherence: Coherence::NONE, // a hook changes answers
            ..self.inner.limits()
        }
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        self.hook.before(&Event {
            offset,
            count: count as usize,
            ..Event::of("read", call, id)
        })?;
        let reply = self.inner.read(call, id, offset, count)?;
        Ok(self.hook.reply(reply))
    }

    fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let verifier = self.write_verifier(None);
        let stability = self.hook.stability(stability);
        self.hook.before(&Event {
            offset,
            count: data.len(),
            is_stable: stability > Stability::Unstable,
            ..Event::of("write", call, id)
        })?;
        let written = self.inner.write(call, id, offset, data, stability)?;
        Ok(self.hook.written(Written {
            verifier,
            ..written
        }))
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<Committed> {
        self.hook.before(&Event {
            offset,
            count: count as usize,
            ..Event::of("commit", call, id)
        })?;
        let committed = self.inner.commit(call, id, offset, count)?;
        Ok(Committed {
            verifier: self.hook.verifier(committed.verifier),
            ..committed
        })
    }

    fn write_verifier(&self, _id: Option<&FileId>) -> [u8; 8] {
        self.hook.verifier(self.inner.write_verifier(None))
    }

    fn rename(
        &self,
        call: &Call<'_>,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        self.hook.before(&Event {
            name: from.1,
            ..Event::of("rename", call, from.0)
        })?;
        self.inner.rename(call, from, to, mode)
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        self.hook.before(&Event {
            offset: cookie,
            ..Event::of("read_directory", call, directory)
        })?;
        let mut visit = |entry: &DirectoryEntry<'_>| {
            let shown = self.hook.entry(entry);
            shown.is_none_or(|shown| visit(&shown))
        };
        let page = self
            .inner
            .read_directory(call, directory, cookie, with_attributes, &mut visit);
        self.hook.listed();
        page
    }

    fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        let event = Event::of("statistics", call, &self.root());
        self.hook.before(&event)?;
        self.inner.statistics(call)
    }
}

/// What a new file is to have.
fn set_by(mode: &CreateMode) -> SetAttributes {
    match mode {
        CreateMode::Unchecked(attributes) | CreateMode::Guarded(attributes) => *attributes,
        CreateMode::Exclusive(_) => SetAttributes::default(),
    }
}

/// A call of root for files that a test makes behind the server's back.
pub fn make_file(filesystem: &dyn FileSystem, name: &[u8], content: &[u8]) -> FileId {
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let mode = CreateMode::Guarded(SetAttributes::default());
    let created = filesystem.create(&call, &filesystem.root(), name, &mode);
    let id = created.expect("a new file").entry.id;
    filesystem
        .write(&call, &id, 0, content, Stability::FileSync)
        .expect("written");
    id
}

/// A door that calls wait at until it is opened.
#[derive(Default)]
pub struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    /// Waits until it is open. A test that fails must not leave threads behind.
    pub fn pass(&self) {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        let _open = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(120), |state| !state.0);
    }

    pub fn open(&self) {
        self.state.lock().0 = true;
        self.changed.notify_all();
    }

    /// Waits until `count` calls have come to it.
    pub fn wait_for(&self, count: usize) {
        let state = self.state.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(60), |state| state.1 < count);
        let arrived = waited.1;
        drop(waited);
        assert!(arrived >= count, "only {arrived} calls came");
    }

    /// Calls that have come to it.
    pub fn arrived(&self) -> usize {
        self.state.lock().1
    }
}

/// Everything may wait, and some operations on some objects stay at a gate.
#[derive(Default)]
pub struct Stalls {
    pub gate: Gate,
    /// Method names.
    pub operations: Vec<&'static str>,
    /// Empty: all objects.
    pub objects: Mutex<HashSet<FileId>>,
}

impl Stalls {
    pub fn at(operations: &[&'static str]) -> Self {
        Self {
            operations: operations.to_vec(),
            ..Self::default()
        }
    }
}

impl Hook for Stalls {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        let stalls = {
            let objects = self.objects.lock();
            self.operations.contains(&event.operation)
                && (objects.is_empty() || objects.contains(&event.id))
        };
        if stalls {
            self.gate.pass();
        }
        Ok(())
    }
}
