//! Changes of files: calls, and when they reach the store.
//!
//! ```text
//!   write ──> memory, dirty ──> fsync, COMMIT, close ──┬─ ack=store ───> the object is made
//!                                                      └─ ack=journal ─> durable on this disk
//!   thread ──> journaled for 5 s, or left alone for 30 s ──────────────> the object is made
//! ```
//!
//! A server promises that a file is there when CREATE returns, and cut off when SETATTR does. So it
//! makes the object at once.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pagewell_base::size;
use pagewell_base::spans::Spans;
use pagewell_base::sync::{Condvar, Mutex};
use pagewell_counters::names::PANICS;
use pagewell_fs::{
    Call, Change, Committed, Error, Finish, Result, SetAttributes, SetTime, Stability, Timestamp,
    Written, access,
};

use pagewell_object_client::{Acknowledge, Handling, Version};
use pagewell_staging::Journaled;

use super::ahead;
use super::backing::Draft;
use super::changed::{Changed, FILES_MAX};
use super::content::Content;
use super::file::File;
use super::guard::{Guard, Rights};
use super::leftovers::Leftovers;
use super::listing::{Found, Item};
use super::making::NOTHING;
use super::metadata::Marks;
use super::moves::{Carried, Limits};
use super::moving::{Moved, Moving};
use super::node::Node;
use super::sending::{Sender, note_made};
use super::shown::Known;
use super::side_by_side::side_by_side;
use super::tree::{Tree, gone};

pub(super) const FILE_BYTES_MAX: u64 = 5 << 40;
/// A file may always grow so far at once: NFS clients send their pages out of order.
const GAP_BYTES_MIN: u64 = 1 << 30;
const JOURNALED_FOR: Duration = Duration::from_secs(5);
/// After which files are sent that were changed and left alone.
const QUIET_FOR: Duration = Duration::from_secs(30);
/// How soon a file that could not be sent is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_secs(1);
/// How often a writer makes room in the staging folder, where others fill it again.
const ROOM_TRIES_MAX: usize = 16;

pub(super) struct Writer {
    tree: Arc<Tree>,
    guard: Guard,
    sender: Arc<Sender>,
    changed: Changed,
    leftovers: Leftovers,
    moving: Moving,
    handling: Handling,
    /// See [`Writing::creates_at_once`](super::Writing::creates_at_once).
    is_at_once: bool,
    verifier: u64,
    ends: Arc<(Mutex<bool>, Condvar)>,
}

impl Writer {
    /// With the thread that sends what is due.
    pub(super) fn start(
        tree: &Arc<Tree>,
        guard: Guard,
        with: (Sender, Leftovers),
        how: (Handling, bool),
    ) -> Arc<Self> {
        let writer = Self::new(tree, guard, with, how);
        writer.run();
        writer
    }

    pub(super) fn new(
        tree: &Arc<Tree>,
        guard: Guard,
        (sender, leftovers): (Sender, Leftovers),
        (handling, is_at_once): (Handling, bool),
    ) -> Arc<Self> {
        Arc::new(Self {
            tree: tree.clone(),
            guard,
            sender: Arc::new(sender),
            changed: Changed::default(),
            leftovers,
            moving: Moving::default(),
            handling,
            is_at_once,
            verifier: pagewell_fs::verifier::fresh(),
            ends: Arc::default(),
        })
    }

    pub(super) fn run(self: &Arc<Self>) {
        let (weak, ends) = (Arc::downgrade(self), self.ends.clone());
        let thread = std::thread::Builder::new().name("pagewell-sender".to_owned());
        if let Err(error) = thread.spawn(move || run(&weak, &ends)) {
            tracing::warn!("no thread sends what is changed and not closed: {error}");
        }
    }

    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// For people: what the store is good for, if it was asked, and what fsync waits for.
    pub(super) fn describe(&self) -> String {
        let place = self.tree.data().remote().describe();
        let class = self
            .guard
            .class()
            .map(|class| format!("{}, ", class.name()));
        let class = class.unwrap_or_default();
        let waits_for = match self.handling.acknowledge {
            Acknowledge::Store => "the store",
            Acknowledge::Journal => "the journal on this machine",
        };
        format!("{place} ({class}fsync waits for {waits_for})")
    }

    pub(super) fn sender(&self) -> &Sender {
        &self.sender
    }

    pub(super) fn moving(&self) -> &Moving {
        &self.moving
    }

    pub(super) fn handling(&self) -> &Handling {
        &self.handling
    }

    pub(super) fn is_at_once(&self) -> bool {
        self.is_at_once
    }

    /// What changes can rest on; [`Error::ReadOnly`] where there may be none.
    pub(super) fn rights(&self, call: &Call<'_>) -> Result<Rights> {
        let rights = self.guard.rights(call.may_block)?;
        if let Some(remote) = self.tree.data().remote().as_writable() {
            remote.trust_signed_hashes(rights.compares_signed_hashes);
        }
        Ok(rights)
    }

    /// Changes whenever something that was written may have been lost.
    pub(super) fn verifier(&self) -> [u8; 8] {
        let losses = self.tree.data().store().loss_epoch();
        pagewell_fs::verifier::after(self.verifier, losses)
    }

    /// Goes on with what an earlier run has left.
    pub(super) fn resume(&self, journaled: Vec<Journaled>) {
        if !journaled.is_empty() {
            let place = self.tree.data().remote().describe();
            tracing::info!("{place}: goes on with {} changed files", journaled.len());
        }
        for Journaled {
            record,
            file: staged,
        } in journaled
        {
            let Some(node) = self.tree.made_at(&record.key) else {
                tracing::error!("{}: is staged, and not below what is open", record.key);
                continue;
            };
            let base = record.base.map(|base| Version {
                etag: base.etag,
                last_modified: base.last_modified,
                length_bytes: base.length_bytes,
            });
            let mut dirty = Spans::default();
            for (start, end) in record.dirty {
                dirty.insert(start, end);
            }
            let is_new = base.is_none();
            let draft = Draft {
                base: base.map(|version| (version, record.base_bytes)),
                length_bytes: record.length_bytes,
                dirty,
                ahead: Spans::default(),
            };
            let Some(file) = node.file() else { continue };
            let content = self.tree.data().resume(node.key(), draft, staged);
            file.begin(content, Some(record.token));
            if !record.metadata.is_empty() {
                let marks = Known::new(record.metadata).marks;
                node.set(marks);
                file.set(marks, self.tree.has_metadata());
            }
            self.changed.note(&node);
            self.changed.note_journaled(&node);
            if is_new {
                note_made(&node, Found::File(NOTHING), false);
            }
        }
    }

    /// Notes that a file is about to have changes. With too many others that have, one of them is
    /// sent before.
    pub(super) fn note_changed(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<()> {
        let mut failed = None;
        while let Some(first) = self.changed.note_new(node) {
            Error::WouldBlock.unless(call.may_block)?;
            if let Some(error) = failed {
                let text = format!("{FILES_MAX} changed files wait for the store: {error}");
                return Err(Error::FullBelow(text));
            }
            failed = self.send_alone(&first).err();
        }
        Ok(())
    }

    /// Notes it again, now that it has them: a commit may have settled it in between.
    pub(super) fn note_again(&self, node: &Arc<Node>) {
        self.changed.note(node);
    }

    /// Makes an object of the file that takes most of a nearly full staging folder, or, where that
    /// had no room for something, of the one with most changes: it needs no place there then.
    /// Whether there was one.
    fn make_room(&self, call: &Call<'_>, is_refused: bool) -> Result<bool> {
        let staging = self.sender.staging();
        if !is_refused && !staging.is_nearly_full() {
            return Ok(false);
        }
        Error::WouldBlock.unless(call.may_block)?;
        let needed_bytes = match staging.forget_refusal() || is_refused {
            true => lost_bytes,
            false => staged_bytes,
        };
        let files = self.changed.due(Duration::ZERO, Duration::ZERO);
        let needed = files.iter().map(|node| (needed_bytes(node), node));
        let Some((1.., node)) = needed.max_by_key(|(bytes, _)| *bytes) else {
            return Ok(false);
        };
        let is_sent = self.send_alone(node).is_ok();
        let content = node.file().and_then(File::changing_content);
        if let Some(content) = content.filter(|_| is_sent) {
            content.let_go();
        }
        Ok(is_sent)
    }

    /// A store knows no holes: zeros are sent between the end of a file and its next byte.
    fn check_gap(&self, node: &Node, end: u64, next: u64) -> Result<()> {
        let gap = next.saturating_sub(end);
        let staging = self.sender.staging();
        if gap <= staging.bytes_max().max(GAP_BYTES_MIN) {
            return Ok(());
        }
        let (key, gap) = (node.key(), size::display(gap));
        let text = "of zeros would be sent, more than --staging-dir-size";
        tracing::debug!("{key}: does not grow: {gap} {text}");
        Err(Error::FileTooLarge)
    }

    fn refused(&self, error: Error) -> Error {
        let staging = self.sender.staging();
        let text = match error {
            Error::FullBelow(text) => text,
            Error::Io(text) if staging.is_nearly_full() => text,
            other => return gone(other),
        };
        let folder = staging.path().display();
        Error::FullBelow(format!("{text}; {folder} is full (see --staging-dir-size)"))
    }

    fn write_bytes(
        &self,
        call: &Call<'_>,
        node: &Arc<Node>,
        file: &File,
        bytes: (u64, &[u8]),
    ) -> Result<()> {
        let of = (node.key(), self.tree.data());
        let mut before = file.changing_content();
        self.make_room(call, false)?;
        for number in 1.. {
            self.note_changed(call, node)?;
            // What was sent may have been this file, in vain.
            file.take_failure()?;
            let written = file.write(of, bytes, call.may_block, &mut 0);
            self.note_again(node);
            let now = file.changing_content();
            before = before.or_else(|| now.clone());
            // Changes that were given up are not those of the file that took their place.
            let is_same = match (&before, &now) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                _ => false,
            };
            let is_refused = matches!(written, Err(Error::FullBelow(_) | Error::QuotaBelow(_)));
            let is_full = || is_refused || self.sender.staging().is_nearly_full();
            // Memory and folder were filled meanwhile. What is sent needs no room.
            let may_help = match &written {
                Err(Error::FullBelow(_) | Error::QuotaBelow(_) | Error::Io(_)) => is_full(),
                _ => false,
            };
            let may_help = may_help && is_same && call.may_block && number <= ROOM_TRIES_MAX;
            // Another thread may have made some.
            if may_help && (self.make_room(call, is_refused)? || number == 1) {
                continue;
            }
            return match written {
                Err(Error::WouldBlock) if call.may_block => Err(Error::TryLater),
                written => written.map_err(|error| self.refused(error)),
            };
        }
        Ok(())
    }

    pub(super) fn write(
        &self,
        call: &Call<'_>,
        node: &Arc<Node>,
        (offset, data): (u64, &[u8]),
        stability: Stability,
    ) -> Result<Written> {
        let file = node.file().ok_or(Error::IsDirectory)?;
        let is_stable = stability > Stability::Unstable;
        Error::WouldBlock.when(is_stable && !call.may_block)?;
        self.rights(call)?;
        let attributes = self.tree.attributes_of(call, node)?;
        access::check_write(call.credentials, &attributes)?;
        let count = u32::try_from(data.len()).map_err(|_| Error::Invalid)?;
        let end = offset.checked_add(u64::from(count));
        Error::FileTooLarge.when(end.is_none_or(|end| end > FILE_BYTES_MAX))?;
        let verifier = self.verifier();
        file.take_failure()?;
        if count > 0 {
            self.check_gap(node, attributes.size, offset)?;
            self.write_bytes(call, node, file, (offset, data))?;
            if self.handling.acknowledge == Acknowledge::Store {
                ahead::follow(&self.sender, node, offset + u64::from(count));
            }
        }
        if is_stable {
            self.commit(node)?;
        }
        Ok(Written {
            count,
            committed: if is_stable {
                Stability::FileSync
            } else {
                Stability::Unstable
            },
            verifier,
            change: self.change_of(node),
        })
    }

    /// [`pagewell_fs::FileSystem::commit`], of the whole file.
    pub(super) fn committed(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<Committed> {
        Error::WouldBlock.unless(call.may_block)?;
        self.commit(node)?;
        Ok(Committed {
            verifier: self.verifier(),
            change: self.change_of(node),
        })
    }

    fn change_of(&self, node: &Node) -> Change {
        let shown = node.file().and_then(|file| file.shown());
        Change {
            before: None,
            after: shown.map(|shown| self.tree.of_file(node, &shown)),
        }
    }

    pub(super) fn commit(&self, node: &Arc<Node>) -> Result<()> {
        let Some(file) = node.file() else {
            return Ok(());
        };
        let _alone = file.hold_to_send();
        file.take_failure()?;
        let committed = match self.handling.acknowledge {
            Acknowledge::Store => self.send_held(node, file),
            Acknowledge::Journal => self.journal_held(node, file),
        };
        // This caller learns of it.
        committed.inspect_err(|_| drop(file.take_failure()))
    }

    fn journal_held(&self, node: &Arc<Node>, file: &File) -> Result<()> {
        let content = self.to_send(node, file)?;
        let Some(content) = content else {
            self.settle(node, file);
            return Ok(());
        };
        if let Some(changes) = file.changes_to_journal() {
            if let Err(error) = self.sender.journal(node, file, &content) {
                // What the disk may not have as it was written must not be sent.
                if file.staged().is_some_and(|staged| staged.is_doubtful()) {
                    return Err(error);
                }
                // Sent, it is safer than a journal without room has it.
                tracing::debug!("{}: sent at once, not journaled: {error}", node.key());
                return self.send_held(node, file);
            }
            file.note_journaled(changes);
        }
        self.changed.note_journaled(node);
        Ok(())
    }

    pub(super) fn send(&self, node: &Arc<Node>) -> Result<()> {
        let Some(file) = node.file() else {
            return Ok(());
        };
        let _alone = file.hold_to_send();
        self.send_held(node, file)
    }

    fn to_send(&self, node: &Node, file: &File) -> Result<Option<Arc<Content>>> {
        match file.is_removed() {
            true => Ok(None),
            false => file.changed_content(node.key(), self.tree.data()),
        }
    }

    /// [`Self::send`] for a caller that has [`File::hold_to_send`].
    pub(super) fn send_held(&self, node: &Arc<Node>, file: &File) -> Result<()> {
        let content = self.to_send(node, file)?;
        let sent = content.map_or(Ok(()), |content| {
            if !self.guard.rights(true)?.copies_parts {
                self.sender.uploader().forbid_copies();
            }
            self.sender.send(node, file, &content)
        });
        self.settle(node, file);
        sent
    }

    /// A file without changes leaves nothing to be done, now or after a kill.
    fn settle(&self, node: &Arc<Node>, file: &File) {
        if let Some(staged) = file.take_unneeded() {
            staged.finish();
        }
        if let (Some(version), Some(directory)) = (file.known(), node.parent().directory())
            && !file.is_changed()
            && !file.is_removed()
        {
            let name = node.own_key().as_bytes();
            directory.note_stored(Item::new(name, Found::File(version)));
        }
        self.changed.settle(node);
    }

    pub(super) fn send_below(&self, prefix: &str) -> Result<()> {
        let mut files = self.changed.all();
        files.retain(|node| node.key().starts_with(prefix));
        let failed = self.send_all(&files).into_iter().next();
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Makes objects of files, several at a time, and returns those that failed.
    fn send_all(&self, files: &[Arc<Node>]) -> Vec<(Arc<Node>, Error)> {
        let failed = Mutex::new(Vec::new());
        let Ok(()) = side_by_side(self.sender.uploader().budget(), files, &|node| {
            if let Err(error) = self.send(node) {
                failed.lock().push((node.clone(), error));
            }
            Ok::<(), Infallible>(())
        });
        failed.into_inner()
    }

    /// Moves what is below a directory, in the store and here.
    pub(super) fn move_directory(
        &self,
        call: &Call<'_>,
        from: &str,
        to: &str,
    ) -> Result<Moved<'_>> {
        let rights = self.rights(call)?;
        let moved = self.moving.begin(from, to)?;
        self.leftovers.note_move(from, to);
        // What is not sent of the target shows that it is not empty.
        for key in [from, to] {
            self.send_below(key)?;
        }
        let mover = self.sender.mover(rights.guards_deletes);
        let limits = self.handling.rename_limits;
        let limits = Limits {
            files_max: usize::try_from(limits.files_max).unwrap_or(usize::MAX),
            bytes_max: limits.bytes_max,
        };
        let root = self.tree.root().key();
        let note = |from: &str, to: &str, carried: &Carried| {
            if let Some(node) = self.tree.known_file(from)
                && let Some(new) = self.tree.made_as(to, &carried.made)
            {
                self.note_moved(&node, &new, Some(carried));
            }
        };
        let result = mover.rename_directory(root, (from, to), limits, &note);
        // After a failure, some of it may have been moved.
        for key in [from, to] {
            self.tree.expire_below(key);
        }
        result?;
        for (node, new) in self.tree.below(from, to) {
            self.note_moved(&node, &new, None);
        }
        Ok(moved)
    }

    /// Notes that an object is another one now, made so by the store.
    pub(super) fn note_moved(&self, node: &Node, new: &Arc<Node>, carried: Option<&Carried>) {
        let content = node.file().and_then(|file| file.moved_to(new, carried));
        if let Some(content) = content {
            self.sender.give_up_ahead(&content);
            content.discard();
        }
        self.tree.moved(node, new);
    }

    /// Throws away what a file has; nothing reads it any more.
    pub(super) fn give_up(&self, file: &File) {
        if let Some(content) = file.give_up() {
            self.sender.give_up_ahead(&content);
            content.discard();
        }
    }

    /// Nothing that was sent ahead of a file without bytes is of use, nor may it be sent again.
    fn begin_anew(&self, file: &File) {
        if let Some(content) = file.changing_content()
            && content.ahead().has_begun()
        {
            self.sender.give_up_ahead(&content);
            file.end_ahead();
        }
    }

    /// A file without a name has nothing to be sent, now or after a kill.
    pub(super) fn forget(&self, node: &Node) {
        if let Some(content) = node.file().and_then(File::changing_content) {
            self.sender.give_up_ahead(&content);
        }
        if let Some(staged) = node.file().and_then(File::staged) {
            staged.withdraw();
        }
        self.changed.settle(node);
    }

    pub(super) fn set_attributes(
        &self,
        call: &Call<'_>,
        node: &Arc<Node>,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        Error::WouldBlock.unless(call.may_block)?;
        self.rights(call)?;
        let before = self.tree.attributes_of(call, node)?;
        if let Some(guard) = guard {
            Error::NotSync.unless(before.changed == guard)?;
        }
        let is_owned = attributes.mode.is_some()
            || attributes.uid.is_some()
            || attributes.gid.is_some()
            || matches!(attributes.modified, Some(SetTime::To(_)))
            || matches!(attributes.accessed, Some(SetTime::To(_)));
        if is_owned {
            access::check_owner(call.credentials, &before)?;
        }
        Error::Invalid.unless(attributes.has_valid_times())?;
        let Some(file) = node.file() else {
            Error::IsDirectory.when(attributes.size.is_some())?;
            node.set(marks_of(attributes));
            return Ok(Change {
                before: None,
                after: Some(self.tree.of_directory(node)),
            });
        };
        if let Some(size) = attributes.size {
            file.take_failure()?;
            access::check_write(call.credentials, &before)?;
            Error::FileTooLarge.when(size > FILE_BYTES_MAX)?;
            self.check_gap(node, before.size, size)?;
            if size != before.size || file.is_changed() {
                self.note_changed(call, node)?;
                let alone = file.hold_to_send();
                let set = file.set_length(node.key(), self.tree.data(), size);
                if size == 0 {
                    self.begin_anew(file);
                }
                self.note_again(node);
                drop(alone);
                set.map_err(|error| self.refused(error))?;
            }
        }
        let marks = marks_of(attributes);
        let is_kept = self.tree.has_metadata();
        if marks != Marks::default() {
            if is_kept {
                self.note_changed(call, node)?;
            } else {
                node.set(marks);
            }
            file.set(marks, is_kept);
            if is_kept {
                self.note_again(node);
            }
        }
        if self.is_at_once && (attributes.size.is_some() || is_kept) {
            self.commit(node)?;
        }
        Ok(self.change_of(node))
    }

    pub(super) fn finish(&self, how: Finish) -> Result<u64> {
        let files = self.changed.all();
        if how == Finish::Abandon {
            // What was promised is durable, and no more.
            return Ok(files.iter().map(lost_bytes).sum());
        }
        let failed = self.send_all(&files);
        if how == Finish::Sync {
            return failed
                .into_iter()
                .next()
                .map_or(Ok(0), |(_, error)| Err(error));
        }
        let place = self.tree.data().remote().describe();
        let (mut waiting, mut lost) = (0, 0);
        for (node, reason) in &failed {
            match self.leave(node) {
                Ok(is_left) => waiting += u64::from(is_left),
                Err(error) => {
                    tracing::error!("{place}: {}: {reason}; {error}", node.key());
                    lost += lost_bytes(node);
                }
            }
        }
        if let (true, Some((_, reason))) = (waiting > 0, failed.first()) {
            let folder = self.sender.staging().path().display();
            tracing::warn!(
                "{place}: {reason}; {waiting} changed files wait in {folder} for the next start"
            );
        }
        Ok(lost)
    }

    /// Makes the changes of a file durable here, for a later run. Whether there are any.
    fn leave(&self, node: &Arc<Node>) -> Result<bool> {
        let file = node.file().ok_or(Error::IsDirectory)?;
        let _alone = file.hold_to_send();
        let content = self.to_send(node, file)?;
        let Some(content) = content else {
            self.settle(node, file);
            return Ok(false);
        };
        self.sender.journal(node, file, &content)?;
        Ok(true)
    }

    fn send_due(&self) {
        self.leftovers.clear(self);
        let due = self.changed.due(JOURNALED_FOR, QUIET_FOR);
        let Ok(()) = side_by_side(self.sender.uploader().budget(), &due, &|node| {
            let _ = self.send_alone(node);
            Ok::<(), Infallible>(())
        });
    }

    /// Sends a file that no program waits for.
    fn send_alone(&self, node: &Arc<Node>) -> Result<()> {
        self.send(node).inspect_err(|error| {
            let place = self.tree.data().remote().describe();
            tracing::warn!("{place}: {}: is not in the store yet: {error}", node.key());
            self.changed.note_failed(node, AGAIN_AFTER);
        })
    }
}

fn lost_bytes(node: &Arc<Node>) -> u64 {
    node.file().map_or(0, File::changed_bytes)
}

fn staged_bytes(node: &Arc<Node>) -> u64 {
    let staged = node.file().and_then(File::staged);
    staged.map_or(0, |staged| staged.stored_bytes())
}

impl Drop for Writer {
    fn drop(&mut self) {
        *self.ends.0.lock() = true;
        self.ends.1.notify_all();
    }
}

fn run(writer: &Weak<Writer>, (has_ended, wake): &(Mutex<bool>, Condvar)) {
    loop {
        let ended = has_ended.lock();
        let ended = wake.wait_timeout(ended, TICK);
        if *ended {
            return;
        }
        drop(ended);
        let Some(writer) = writer.upgrade() else {
            return;
        };
        let work = std::panic::AssertUnwindSafe(|| writer.send_due());
        if std::panic::catch_unwind(work).is_err() {
            PANICS.add(1);
        }
    }
}

pub(super) fn marks_of(attributes: &SetAttributes) -> Marks {
    let time = |how: SetTime| match how {
        SetTime::To(time) => time,
        SetTime::ToServerTime => Timestamp::now(),
    };
    Marks {
        mode: attributes.mode.map(|mode| mode & 0o7777),
        uid: attributes.uid,
        gid: attributes.gid,
        modified: attributes.modified.map(time),
        accessed: attributes.accessed.map(time),
        ..Marks::default()
    }
}
