//! A mount: its parts, and how each request comes to an answer.

mod service;

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    Errno, Filesystem, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyStatfs,
    ReplyWrite, Request, Session,
};
use pagewell_counters::names;
use pagewell_fs::{
    Attributes, Call, Coherence, Created, Entry, Error, ExtendedAttributes, FileId, FileSystem,
    Result, Statistics,
};

use crate::blocked::{Blocked, Ticket};
use crate::buffer_pool;
use crate::caller::{Caller, Permissions};
use crate::convert::unknown;
use crate::dispatch::{Dispatch, Memory, ReadLease};
use crate::handles::{READING, Target};
use crate::invalidation::Invalidation;
use crate::kernel_prefill::KernelPrefill;
use crate::kernel_view::KernelView;
use crate::listing::Listing;
use crate::negotiation::Negotiation;
use crate::nodes::Nodes;
use crate::opening::Opening;
use crate::options::Options;
use crate::privileges::Privileges;
use crate::pruning::Pruning;
use crate::reply::{Data, Device, Refuse};
use crate::writing::{Place, Writing};

/// Unit of the numbers of statfs.
const STATISTICS_BLOCK_BYTES: u32 = 4096;

type Files = dyn FileSystem;

pub(crate) struct Front {
    files: Arc<Files>,
    view: KernelView,
    nodes: Arc<Nodes>,
    opening: Opening,
    listing: Listing,
    writing: Arc<Writing>,
    privileges: Arc<Privileges>,
    prefill: Arc<KernelPrefill>,
    invalidation: Arc<Invalidation>,
    pruning: Arc<Pruning>,
    dispatch: Arc<Dispatch>,
    blocked: Arc<Blocked>,
    device: Arc<Device>,
}

impl Front {
    pub(crate) fn new(files: Arc<Files>, coherence: Coherence, options: &Options) -> Self {
        let readers = options.readers();
        let dispatch = Dispatch::new(readers, options.threads.saturating_sub(readers));
        let dispatch = Arc::new(dispatch);
        let view = KernelView::new(coherence, options.appearance, files.limits().read_only);
        let (device, invalidation) = (Arc::<Device>::default(), Arc::<Invalidation>::default());
        let nodes = Arc::new(Nodes::new(&files, options.narrow_numbers));
        let privileges = Privileges::new(&files, &invalidation, view.keeps_attributes());
        let privileges = Arc::new(privileges);
        let writing = Writing::new(&files, &nodes, &privileges, options.synchronous);
        let writing = Arc::new(writing);
        let is_on = view.is_immutable();
        let prefill = Arc::new(KernelPrefill::new(
            is_on, &files, &nodes, &dispatch, &device,
        ));
        Self {
            view,
            opening: Opening::new(&files, &writing),
            listing: Listing::new(&files, &nodes, view, &prefill),
            pruning: Arc::new(Pruning::new(&nodes, &writing, &device)),
            files,
            nodes,
            writing,
            privileges,
            prefill,
            invalidation,
            dispatch,
            blocked: Arc::default(),
            device,
        }
    }

    pub(crate) fn filesystem(&self) -> &Files {
        &*self.files
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Begins to look for callers that are killed while they wait.
    pub(crate) fn watch_callers(&self) -> std::io::Result<()> {
        let dispatch = Arc::clone(&self.dispatch);
        self.blocked.start(move || dispatch.drop_unwanted())
    }

    pub(crate) fn notify_through<F: Filesystem>(
        &self,
        session: &Session<F>,
    ) -> std::io::Result<()> {
        self.device.set(session.as_fd().try_clone_to_owned()?);
        self.invalidation.start(session.notifier())?;
        self.pruning.start()
    }

    pub(crate) fn stop(&self) {
        self.dispatch.stop();
        self.blocked.stop();
        self.invalidation.stop();
        self.pruning.stop();
    }

    /// Answers a request of an object, here or where waiting is allowed. `finish` gets the reply
    /// unless the caller is killed meanwhile.
    fn answer<R: Refuse, T>(
        self: &Arc<Self>,
        (request, node, reply): (&Request, INodeNo, R),
        work: impl Fn(&Self, &Caller, &FileId) -> Result<T> + Send + 'static,
        finish: impl FnOnce(&Self, R, T) + Send + 'static,
    ) {
        let caller = Caller::of(request, self.view.hides_owners());
        let work = move |front: &Self, may_block, _| {
            caller.set_may_block(may_block);
            work(front, &caller, &front.nodes.id(node.0)?)
        };
        self.answer_with(request, Memory::None, reply, work, finish);
    }

    /// As [`Front::answer`], with a lease of `memory`; dropped when its caller is killed before its
    /// turn.
    fn answer_with<R: Refuse, T>(
        self: &Arc<Self>,
        request: &Request,
        memory: Memory,
        reply: R,
        work: impl Fn(&Self, bool, Option<ReadLease>) -> Result<T> + Send + 'static,
        finish: impl FnOnce(&Self, R, T) + Send + 'static,
    ) {
        match guarded(|| work(self, false, None)) {
            Err(Error::WouldBlock) => {}
            answer => return self.finish(reply, answer, finish),
        }
        let ticket = self.blocked.enter(request.pid(), reply);
        match self.dispatch.here(memory) {
            Some((_here, lease)) => {
                let answer = guarded(|| work(self, true, lease));
                self.settle(ticket, answer, finish);
            }
            None => {
                let work = move |front: &Self, lease| work(front, true, lease);
                self.hand_over(ticket, memory, work, finish);
            }
        }
    }

    /// As [`Front::answer_with`]; copies the data only when another thread must wait.
    fn answer_write(
        self: &Arc<Self>,
        request: &Request,
        (node, place): (INodeNo, Place),
        data: &[u8],
        reply: ReplyWrite,
    ) {
        let write = move |front: &Self, may_block, data: &[u8]| {
            guarded(|| front.writing.write(&place, may_block, data))
        };
        let finish = move |front: &Self, reply: ReplyWrite, (count, is_elsewhere)| {
            reply.written(count);
            if is_elsewhere {
                front.invalidation.drop_pages(node.0);
            }
        };
        match write(self, false, data) {
            Err(Error::WouldBlock) => {}
            done => return self.finish(reply, done, finish),
        }
        let ticket = self.blocked.enter(request.pid(), reply);
        if let Some(_here) = self.dispatch.here(Memory::None) {
            return self.settle(ticket, write(self, true, data), finish);
        }
        let data = buffer_pool::copy_of(data);
        names::COPIED_BYTES.add(data.len() as u64);
        let memory = Memory::Data(data.len());
        let write = move |front: &Self, _| {
            let done = write(front, true, &data);
            buffer_pool::give_back(data);
            done
        };
        self.hand_over(ticket, memory, write, finish);
    }

    fn hand_over<R: Refuse, T>(
        self: &Arc<Self>,
        ticket: Ticket<R>,
        memory: Memory,
        work: impl FnOnce(&Self, Option<ReadLease>) -> Result<T> + Send + 'static,
        finish: impl FnOnce(&Self, R, T) + Send + 'static,
    ) {
        let wanted = (memory != Memory::None).then(|| ticket.wanted());
        let front = Arc::clone(self);
        let job = move |lease| {
            let answer = guarded(|| work(&front, lease));
            front.settle(ticket, answer, finish);
        };
        self.dispatch.hand_over(memory, wanted, Box::new(job));
    }

    /// Answers a request that waited, unless its caller was killed.
    fn settle<R: Refuse, T>(
        &self,
        ticket: Ticket<R>,
        answer: Result<T>,
        finish: impl FnOnce(&Self, R, T),
    ) {
        if let Some(reply) = ticket.finish() {
            self.finish(reply, answer, finish);
        }
    }

    fn finish<R: Refuse, T>(&self, reply: R, answer: Result<T>, finish: impl FnOnce(&Self, R, T)) {
        match answer {
            Ok(answer) => {
                // What follows an answer asks the source, too. A reply that is lost is an error.
                let _ = guarded(|| {
                    finish(self, reply, answer);
                    Ok(())
                });
            }
            Err(error) => {
                self.report(&error);
                reply.refuse(Errno::from_i32(error.to_errno().raw_os_error()));
            }
        }
    }

    /// A program sees only "I/O error"; the log says where, and limits the lines by source.
    fn report(&self, error: &Error) {
        if let Some(text) = error.trouble() {
            names::STORAGE_ERRORS.add(1);
            let source = self.files.describe();
            tracing::error!(limit = source, source, "storage: {text}");
        }
    }

    fn answer_done(
        self: &Arc<Self>,
        asked: (&Request, INodeNo, ReplyEmpty),
        work: impl Fn(&Self, &Caller, &FileId) -> Result<()> + Send + 'static,
    ) {
        self.answer(asked, work, |_, reply, ()| reply.ok());
    }

    /// Makes an object that is not a regular file, and answers with it.
    fn answer_make(
        self: &Arc<Self>,
        asked: (&Request, INodeNo, ReplyEntry),
        (name, permissions): (&OsStr, Permissions),
        make: impl Fn(&Files, &Call<'_>, &FileId, &[u8]) -> Result<Created> + Send + 'static,
    ) {
        let name = name.as_bytes().to_vec();
        let work = move |front: &Self, caller: &Caller, directory: &FileId| {
            let credentials = permissions.credentials_of(caller);
            let call = caller.call_as(&credentials);
            let made = make(&*front.files, &call, directory, &name)?;
            Ok(Some(made.entry))
        };
        self.answer(asked, work, Self::reply_entry);
    }

    /// Ends the use of an open object, which may wait.
    fn release<T: Send + Sync + 'static>(&self, open: Option<Arc<T>>, reply: ReplyEmpty) {
        match self.dispatch.here(Memory::None) {
            Some(_here) => drop(open),
            None => {
                let job = Box::new(move |_| drop(open));
                self.dispatch.hand_over(Memory::None, None, job);
            }
        }
        reply.ok();
    }

    /// The extended attributes that programs may ask for; none where the source would judge by
    /// other owners and permissions than are shown.
    fn extended(&self) -> Result<&dyn ExtendedAttributes> {
        let extended = self.files.extended_attributes();
        let shown = extended.filter(|_| !self.view.hides_owners());
        shown.ok_or(Error::NotSupported)
    }

    fn attributes(&self, caller: &Caller, id: &FileId) -> Result<Attributes> {
        let attributes = caller.ask(|call| self.files.attributes(call, id))?;
        self.nodes.note_number(id, attributes.file_id);
        Ok(attributes)
    }

    /// Finds a name; `None` where the kernel may keep that it is missing.
    fn lookup(&self, caller: &Caller, directory: &FileId, name: &[u8]) -> Result<Option<Entry>> {
        // Of whatever object: the kernel has a file handle of it and has forgotten the rest.
        let found = if name == b"." {
            let id = *directory;
            let attributes = self.attributes(caller, directory);
            attributes.map(|attributes| Entry { id, attributes })
        } else {
            caller.ask(|call| self.files.lookup(call, directory, name))
        };
        match found {
            Err(Error::NotFound) if !self.view.missing_name_lifetime().is_zero() => Ok(None),
            found => found.map(Some),
        }
    }

    /// Reads all that was asked for, or to the end: the kernel takes less for the end.
    fn read(
        &self,
        target: &Target,
        may_block: bool,
        (offset, size): (u64, u32),
        lease: Option<ReadLease>,
    ) -> Result<Data> {
        let id = match target.file() {
            Some(file) => file.id(),
            None => self.nodes.id(target.node())?,
        };
        let wanted = size as usize;
        let mut data = Data::with_lease(lease);
        while data.len() < wanted {
            let at = offset + data.len() as u64;
            let rest = u32::try_from(wanted - data.len()).unwrap_or(size);
            let reply = target.ask(may_block, READING, |call| {
                self.files.read(call, &id, at, rest)
            })?;
            let came = data.add(reply.payload, may_block)?;
            if reply.end_of_file || came == 0 {
                break;
            }
        }
        Ok(data)
    }

    fn reply_entry(&self, reply: ReplyEntry, entry: Option<Entry>) {
        let Some(entry) = entry else {
            let lifetime = self.view.missing_name_lifetime();
            let none = Generation(0);
            return reply.entry_with_ttls(&Duration::ZERO, &lifetime, &unknown(0), none);
        };
        let node = self.nodes.remember(&entry);
        reply.entry_with_ttls(
            &self.view.attributes_lifetime(&entry.attributes),
            &self.view.name_lifetime(),
            &self.view.shown(&entry.attributes, node),
            self.nodes.generation(node, &entry.id),
        );
        self.pruning.prune_if_crowded();
    }

    fn reply_attributes(&self, node: INodeNo, reply: ReplyAttr, found: &Attributes) {
        let lifetime = self.view.attributes_lifetime(found);
        reply.attr(&lifetime, &self.view.shown(found, node.0));
    }

    fn reply_statistics(&self, reply: ReplyStatfs, found: Statistics) {
        let blocks = |bytes: u64| bytes / u64::from(STATISTICS_BLOCK_BYTES);
        reply.statfs(
            blocks(found.bytes_total),
            blocks(found.bytes_free),
            blocks(found.bytes_available),
            found.files_total,
            found.files_free,
            STATISTICS_BLOCK_BYTES,
            self.files.limits().name_bytes_max,
            STATISTICS_BLOCK_BYTES,
        );
    }
}

pub(crate) struct Service {
    front: Arc<Front>,
    negotiation: Negotiation,
}

impl Service {
    pub(crate) fn new(front: Arc<Front>, options: &Options) -> Self {
        Self {
            front,
            negotiation: Negotiation::new(options),
        }
    }
}

/// A defect in a source costs the one request that met it.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        names::PANICS.add(1);
        Err(Error::Io("defect of the program".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_source_ram::RamFileSystem;

    struct Reply;

    impl Refuse for Reply {
        fn refuse(self, _errno: Errno) {}
    }

    #[test]
    fn a_defect_behind_an_answer_ends_no_thread() {
        let files = Arc::new(RamFileSystem::new(1 << 20).unwrap());
        let front = Front::new(files, Coherence::UNCHANGED, &Options::new("ram"));
        let before = names::PANICS.get();
        front.finish(Reply, Ok(()), |_, _, ()| panic!("a defect"));
        assert!(names::PANICS.get() > before);
    }
}
