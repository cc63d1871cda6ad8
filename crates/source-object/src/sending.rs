//! How the changes of a file become an object, or what is done with them when they may not.
//!
//! An object is made if it is still the version that the changes are based on, or if there is none.
//! Else another writer was faster: what was written here goes to a file in the staging folder,
//! where people find it, and the file shows what the other writer made. Nothing is replaced unseen.
//!
//! A request whose reply was lost may have made the object all the same. So each carries a mark in
//! the metadata, and an object with the mark of these changes is no conflict but their new base.

use std::sync::Arc;
use std::time::SystemTime;

use pagewell_fs::{Error, Result, Timestamp};
use pagewell_object_client::{Condition, Error as RemoteError, Metadata, Remote, Upload, Version};
use pagewell_staging::{Base as RecordBase, Record, Staging};

use super::backing::Draft;
use super::content::Content;
use super::error;
use super::file::{File, MARK};
use super::listing::{Found, Item};
use super::metadata::Marks;
use super::moves::Mover;
use super::node::Node;
use super::tree::Tree;
use super::upload::{Base, Early, Failure, NewObject, Notes, Source, Uploader};

pub(super) struct Sender {
    tree: Arc<Tree>,
    staging: Arc<Staging>,
    uploader: Uploader,
    /// How work is begun that sends a file while it is written.
    start: fn(&Arc<Sender>, Work),
}

pub(super) type Work = Box<dyn FnOnce() + Send>;

struct Made {
    version: Version,
    /// What the object has now.
    metadata: Metadata,
    is_as_wanted: bool,
}

/// Notes uploads, which a process may leave behind.
impl Notes for Sender {
    fn begun(&self, upload: &Upload) {
        self.staging.note_upload(&upload.key, &upload.id);
    }

    fn ended(&self, upload: &Upload) {
        self.staging.forget_upload(&upload.key, &upload.id);
    }
}

impl Sender {
    pub(super) fn new(tree: &Arc<Tree>, staging: &Arc<Staging>, uploader: Uploader) -> Self {
        Self {
            tree: tree.clone(),
            staging: staging.clone(),
            uploader,
            start: start_thread,
        }
    }

    /// The same that sends no file beside its writer.
    #[cfg(test)]
    pub(super) fn without_threads(self) -> Self {
        let start = |_: &Arc<Self>, work: Work| work();
        Self { start, ..self }
    }

    pub(super) fn start(self: &Arc<Self>, work: Work) {
        (self.start)(self, work);
    }

    pub(super) fn staging(&self) -> &Staging {
        &self.staging
    }

    pub(super) fn uploader(&self) -> &Uploader {
        &self.uploader
    }

    pub(super) fn mover(&self, guards_deletes: bool) -> Mover<'_> {
        Mover {
            remote: &**self.tree.data().remote(),
            uploader: &self.uploader,
            notes: self,
            guards_deletes,
        }
    }

    pub(super) fn remote(&self) -> &dyn Remote {
        &**self.tree.data().remote()
    }

    /// Makes an object of a file with its changes. The caller has [`File::hold_to_send`].
    pub(super) fn send(&self, node: &Arc<Node>, file: &File, content: &Content) -> Result<()> {
        let mut early = content.ahead().take();
        if early.is_none() {
            file.end_ahead();
        }
        let sent = self.send_with(node, file, content, &mut early);
        if let Some(early) = early {
            self.uploader.abort(self.remote(), &early.upload, self);
        }
        file.end_ahead();
        if sent.is_ok() {
            content.ahead().reset();
        }
        sent
    }

    fn send_with(
        &self,
        node: &Arc<Node>,
        file: &File,
        content: &Content,
        early: &mut Option<Early>,
    ) -> Result<()> {
        let mut was_own = false;
        loop {
            let wanted = file.wanted();
            let has_wanted = wanted.0 != Marks::default();
            let Some(draft) = content.begin_to_send(has_wanted) else {
                return Ok(());
            };
            let marks = wanted.0.over(node.set_here());
            let result = self.upload(node.key(), file, content, (&draft, marks), early);
            let failure = match result {
                Ok(made) if made.is_as_wanted => {
                    self.note_sent(node, file, content, (made, wanted.1));
                    return Ok(());
                }
                Ok(made) => {
                    let modified = file.shown().map(|shown| shown.modified);
                    let rest = Marks { modified, ..marks };
                    file.want(rest);
                    self.note_sent(node, file, content, (made, wanted.1));
                    was_own = false;
                    continue;
                }
                Err(failure) => failure,
            };
            content.backing().not_sent();
            let conflict = match failure {
                Failure::Remote(
                    conflict @ (RemoteError::Exists | RemoteError::Changed | RemoteError::NotFound),
                ) => conflict,
                Failure::Remote(other) => return Err(error::of_call(other)),
                Failure::Local(_) if content.is_gone() => RemoteError::Changed,
                Failure::Local(error) => return Err(error),
            };
            if was_own || !file.find_own(node.key(), self.tree.data())? {
                return Err(self.give_up(node, file, content, &conflict));
            }
            was_own = true;
        }
    }

    fn note_sent(
        &self,
        node: &Arc<Node>,
        file: &File,
        content: &Content,
        (made, wanted_count): (Made, u64),
    ) {
        let version = made.version;
        let staged = file.sent(content, &version, (made.metadata, wanted_count));
        if let Some(staged) = staged {
            staged.finish();
        }
        note_made(node, Found::File(version), true);
    }

    /// Makes an object of the draft, of the upload that began early if there is one.
    fn upload(
        &self,
        key: &str,
        file: &File,
        content: &Content,
        (draft, wanted): (&Draft, Marks),
        early: &mut Option<Early>,
    ) -> Result<Made, Failure> {
        let remote = self.remote();
        let base = draft.base.as_ref().map(|(version, _)| version);
        let others = self.others(key, file, base)?;
        let condition = match &draft.base {
            Some((base, _)) => Condition::Is(base.clone()),
            None => Condition::Absent,
        };
        let metadata = metadata_of(file, file.mark(), wanted, &others);
        let base = draft.base.as_ref().map(|(version, kept_bytes)| Base {
            key,
            version,
            kept_bytes: *kept_bytes,
        });
        let object = NewObject {
            key,
            base,
            length_bytes: draft.length_bytes,
            dirty: &draft.dirty,
            condition: &condition,
            metadata: &metadata,
        };
        if let Some(now) = self.metadata_of_early(early, &object) {
            let of = (&object, content as &dyn Source);
            let with = (remote, self as &dyn Notes);
            if let Some(version) = self.uploader.finish(with, of, early, &draft.ahead)? {
                return Ok(Made {
                    is_as_wanted: now == metadata,
                    version,
                    metadata: now,
                });
            }
        }
        let version = self.uploader.upload(remote, &object, content, self)?;
        Ok(Made {
            version,
            metadata,
            is_as_wanted: true,
        })
    }

    /// The metadata that the object of an early upload gets; none where all has to be sent for the
    /// sake of another.
    fn metadata_of_early(
        &self,
        early: &mut Option<Early>,
        object: &NewObject<'_>,
    ) -> Option<Metadata> {
        let early = early.as_mut()?;
        if early.metadata == *object.metadata {
            return Some(early.metadata.clone());
        }
        if !early.upload.metadata.is_empty() {
            // This store takes it at the end.
            early.upload.metadata.clone_from(object.metadata);
            return Some(object.metadata.clone());
        }
        let is_copied = self.uploader.copies_whole(object.length_bytes);
        is_copied.then(|| early.metadata.clone())
    }

    /// The metadata of the object before, which others may have put there.
    fn others(&self, key: &str, file: &File, base: Option<&Version>) -> Result<Metadata, Failure> {
        let known = file.metadata();
        let (Some(base), None) = (base, &known) else {
            return Ok(known.unwrap_or_default());
        };
        let found = self.remote().head(key)?;
        if !found.version.is_same(base) {
            return Err(RemoteError::Changed.into());
        }
        Ok(found.metadata)
    }

    /// The metadata of an object that is sent before its commit.
    pub(super) fn begin_ahead(
        &self,
        node: &Node,
        file: &File,
        base: Option<&Version>,
    ) -> Result<Metadata, Failure> {
        let others = self.others(node.key(), file, base)?;
        if let Some(base) = base {
            // The commit need not ask again.
            file.learn(base, &others);
        }
        let mark = file.begin_ahead();
        let wanted = file.wanted().0.over(node.set_here());
        Ok(metadata_of(file, mark, wanted, &others))
    }

    /// Ends the upload of a file that nothing is sent of any more.
    pub(super) fn give_up_ahead(&self, content: &Content) {
        if let Some(upload) = content.ahead().give_up() {
            self.uploader.abort(self.remote(), &upload, self);
        }
    }

    /// Keeps changes that would replace those of others in the staging folder, and forgets them.
    /// The next commit fails: the caller may be another program than the one that wrote them.
    fn give_up(
        &self,
        node: &Arc<Node>,
        file: &File,
        content: &Content,
        conflict: &RemoteError,
    ) -> Error {
        let place = self.tree.data().remote().describe();
        let key = node.key();
        let reason = match conflict {
            RemoteError::Exists => "was made by another writer meanwhile",
            RemoteError::NotFound => "was removed by another writer meanwhile",
            _ => "was changed by another writer meanwhile",
        };
        let kept = self.keep(node, file, content, reason);
        let kept = match kept {
            Ok(path) => format!("what was written here is kept in {path}"),
            Err(error) => format!("what was written here could not be kept: {error}"),
        };
        let text = format!("{place}: {key} {reason}; {kept}");
        tracing::error!("{text}");
        drop(file.give_up());
        content.forget();
        let failure = Error::Io(text);
        file.fail(failure.clone());
        if let Some(directory) = node.parent().directory() {
            directory.mistrust(node.own_key().as_bytes());
        }
        failure
    }

    fn keep(&self, node: &Node, file: &File, content: &Content, reason: &str) -> Result<String> {
        let draft = content.stage()?;
        let staged = content.backing().stage().map_err(|_| Error::ReadOnly)?;
        let record = record_of(node, file, &draft, content);
        let path = staged.keep(&record, reason);
        let path = path.map_err(|error| Error::Io(error.to_string()))?;
        Ok(path.display().to_string())
    }

    pub(super) fn journal(&self, node: &Node, file: &File, content: &Content) -> Result<()> {
        let draft = content.stage()?;
        let staged = content.backing().stage().map_err(|_| Error::ReadOnly)?;
        let record = record_of(node, file, &draft, content);
        let journaled = staged.journal(&record);
        journaled.map_err(|error| Error::Io(error.to_string()))
    }
}

/// Notes in the directory of an object that it was made, and whether the store has it.
pub(super) fn note_made(node: &Arc<Node>, found: Found, is_stored: bool) {
    let Some(directory) = node.parent().directory() else {
        return;
    };
    let name = node.own_key().trim_end_matches('/');
    let at = is_stored.then(std::time::Instant::now);
    directory.note_made(Item::new(name.as_bytes(), found), at);
}

/// Works on a thread of its own, if there may be one more.
fn start_thread(sender: &Arc<Sender>, work: Work) {
    if !sender.uploader.budget().has_helper() {
        return;
    }
    let sender = sender.clone();
    let work = move || {
        if let Some(_helper) = sender.uploader.budget().helper() {
            work();
        }
    };
    let thread = std::thread::Builder::new().name("pagewell-ahead".to_owned());
    // Without it all is sent at the commit.
    let _ = thread.spawn(work);
}

fn metadata_of(file: &File, mark: String, wanted: Marks, others: &Metadata) -> Metadata {
    let shown = file.shown();
    let modified = shown.map(|shown| shown.marks.modified.unwrap_or(shown.modified));
    let marks = Marks {
        modified: modified.or_else(|| Some(Timestamp::now())),
        ..wanted
    };
    let mut metadata = marks.to(others);
    metadata.retain(|(name, _)| !name.eq_ignore_ascii_case(MARK));
    metadata.push((MARK.to_owned(), mark.into_bytes()));
    metadata
}

fn record_of(node: &Node, file: &File, draft: &Draft, content: &Content) -> Record {
    let marks = file.wanted().0.over(node.set_here());
    let staged = content.backing().staged();
    let stored = |(start, end): (u64, u64)| {
        let staged = staged.as_ref();
        staged.map_or_else(Vec::new, |staged| staged.spans_within(start, end))
    };
    Record {
        key: node.key().to_owned(),
        base: draft.base.as_ref().map(|(version, _)| RecordBase {
            etag: version.etag.clone(),
            last_modified: version.last_modified,
            length_bytes: version.length_bytes,
        }),
        base_bytes: draft.base.as_ref().map_or(0, |(_, bytes)| *bytes),
        length_bytes: draft.length_bytes,
        dirty: draft.dirty.iter().flat_map(stored).collect(),
        metadata: marks.to(&Metadata::new()),
        token: file.mark(),
        journaled_at: SystemTime::now(),
    }
}
