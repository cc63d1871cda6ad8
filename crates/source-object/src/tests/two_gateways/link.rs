//! The way of one gateway to the store: what is asked is done, or not, or its answer is lost, or it
//! is done later; the gateway ends there, or other programs do something meanwhile.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use pagewell_base::sync::Mutex;
use pagewell_object_client::{
    Activity, Bytes, Condition, Error, ListPage, ListQuery, ListedUpload, Metadata, ObjectInfo,
    Part, Remote, Result, Sink, Upload, Version, WritableRemote,
};
use tempfile::TempDir;

use super::chronicle::Snapshot;
use super::history::Shared;
use crate::testing::Store;

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Not,
    AnswerLost,
    Late,
}

pub(super) struct Link {
    gateway: usize,
    shared: Weak<Shared>,
    folder: PathBuf,
    /// The gateway was killed: no request of it is done any more.
    is_dead: AtomicBool,
    /// What the staging folder had then.
    left: Mutex<Option<TempDir>>,
    /// What uploads in parts are made of.
    begun: Mutex<HashMap<String, Arc<Snapshot>>>,
}

fn lost() -> Error {
    Error::Unreachable("lost".to_owned())
}

impl Link {
    pub(super) fn new(gateway: usize, shared: Weak<Shared>, folder: PathBuf) -> Self {
        Self {
            gateway,
            shared,
            folder,
            is_dead: AtomicBool::new(false),
            left: Mutex::default(),
            begun: Mutex::default(),
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// The gateway is killed now.
    pub(super) fn kill(&self) {
        let copy = super::folder();
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let entry = entry.unwrap();
            // What it was writing may have got another name.
            let _ = std::fs::copy(entry.path(), copy.path().join(entry.file_name()));
        }
        self.is_dead.store(true, Ordering::Release);
        *self.left.lock() = Some(copy);
    }

    pub(super) fn take_left(&self) -> Option<TempDir> {
        self.left.lock().take()
    }

    fn fate(&self, shared: &Arc<Shared>) -> Fate {
        if self.is_dead() {
            return Fate::Not;
        }
        shared.others(self.gateway);
        let below = |most: u64| shared.below(most);
        if !shared.has_fault() {
            return Fate::Done;
        }
        match below(12) {
            0..4 => Fate::Not,
            4..8 => Fate::AnswerLost,
            8..11 => Fate::Late,
            _ => {
                self.kill();
                if below(2) == 0 {
                    Fate::Not
                } else {
                    Fate::AnswerLost
                }
            }
        }
    }

    fn ask<T>(&self, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let shared = self.shared.upgrade().ok_or_else(lost)?;
        match self.fate(&shared) {
            Fate::Done => work(&shared.store),
            _ => Err(lost()),
        }
    }

    fn see(&self, key: &str, version: &Version) {
        if let Some(shared) = self.shared.upgrade() {
            let mut chronicle = shared.chronicle.lock();
            chronicle.note_seen(self.gateway, key, version);
        }
    }

    fn snapshot(&self, key: &str) -> Arc<Snapshot> {
        let shared = self.shared.upgrade().unwrap();
        let mut chronicle = shared.chronicle.lock();
        Arc::new(chronicle.snapshot(self.gateway, key))
    }

    /// An upload that began while its file was written is made of what there is at the commit.
    fn commits(&self, upload: &Upload) {
        let shared = self.shared.upgrade();
        if shared.is_some_and(|shared| !shared.is_writing(self.gateway)) {
            let mut begun = self.begun.lock();
            let snapshot = || self.snapshot(&upload.key);
            begun.entry(upload.id.clone()).or_insert_with(snapshot);
        }
    }

    fn change<T: 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.change_of(key, &self.snapshot(key), work)
    }

    fn change_of<T: 'static>(
        &self,
        key: &str,
        snapshot: &Arc<Snapshot>,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = self.shared.upgrade().ok_or_else(lost)?;
        let gateway = self.gateway;
        if !self.is_dead() {
            shared.own_write(gateway, key);
        }
        let fate = self.fate(&shared);
        match fate {
            Fate::Not => Err(lost()),
            Fate::Late => {
                let (key, snapshot) = (key.to_owned(), snapshot.clone());
                let late = move |shared: &Shared| {
                    let _ = apply(shared, gateway, &key, &snapshot, work);
                };
                shared.late.lock().push(Box::new(late));
                Err(lost())
            }
            Fate::Done | Fate::AnswerLost => {
                let (result, made) = apply(&shared, gateway, key, snapshot, work);
                if fate == Fate::AnswerLost {
                    return Err(lost());
                }
                if let Some(made) = made.filter(|_| result.is_ok()) {
                    let mut chronicle = shared.chronicle.lock();
                    chronicle.note_seen(gateway, key, &made);
                    chronicle.note_stored(gateway, key, snapshot);
                    drop(chronicle);
                    shared.others(gateway);
                }
                result
            }
        }
    }
}

/// Does a request, and says whether it has made an object.
fn apply<T>(
    shared: &Shared,
    gateway: usize,
    key: &str,
    snapshot: &Snapshot,
    work: impl FnOnce(&Store) -> Result<T>,
) -> (Result<T>, Option<Version>) {
    let store = &shared.store;
    let mut chronicle = shared.chronicle.lock();
    let before = store.version(key);
    let result = work(store);
    let after = store.version(key);
    if before == after {
        return (result, None);
    }
    let Some(made) = after else {
        chronicle.note_gone(key);
        return (result, None);
    };
    let bytes = store.bytes(key).unwrap_or_default();
    chronicle.note_made(gateway, key, (snapshot, before.as_ref()), (&made, bytes));
    (result, Some(made))
}

impl Remote for Link {
    fn describe(&self) -> String {
        "s3://bucket".to_owned()
    }

    fn head(&self, key: &str) -> Result<ObjectInfo> {
        let found = self.ask(|store| store.head(key))?;
        let shared = self.shared.upgrade().ok_or_else(lost)?;
        // What a write asks of a file that it has changed already is no base of the change.
        let is_late = shared.is_writing(self.gateway) && shared.is_changed(self.gateway, key);
        if !is_late
            || shared
                .chronicle
                .lock()
                .is_own(self.gateway, key, &found.version)
        {
            self.see(key, &found.version);
        }
        Ok(found)
    }

    fn get(&self, key: &str, bytes_max: u64) -> Result<(ObjectInfo, Option<Bytes>)> {
        let found = self.ask(|store| store.get(key, bytes_max))?;
        self.see(key, &found.0.version);
        Ok(found)
    }

    fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        let page = self.ask(|store| store.list(query))?;
        for object in &page.objects {
            self.see(&object.key, &object.version);
        }
        Ok(page)
    }

    fn fetch(&self, key: &str, version: &Version, range: Range<u64>, mut sink: Box<dyn Sink>) {
        let Some(shared) = self.shared.upgrade() else {
            return sink.end(Err(lost()));
        };
        match self.fate(&shared) {
            Fate::Done => shared.store.fetch(key, version, range, sink),
            Fate::Not => sink.end(Err(lost())),
            Fate::AnswerLost | Fate::Late => {
                // Cut short.
                if shared.store.version(key).as_ref() == Some(version) {
                    let bytes = shared.store.bytes(key).unwrap_or_default();
                    let end = range.start + (range.end - range.start) / 2;
                    sink.put(&bytes[range.start as usize..end as usize]);
                }
                sink.end(Err(lost()));
            }
        }
    }

    fn as_writable(&self) -> Option<&dyn WritableRemote> {
        Some(self)
    }

    fn activity(&self) -> Activity {
        Activity::default()
    }
}

impl WritableRemote for Link {
    fn put(
        &self,
        key: &str,
        body: Bytes,
        condition: &Condition,
        metadata: &Metadata,
    ) -> Result<Version> {
        let (name, condition, metadata) = (key.to_owned(), condition.clone(), metadata.clone());
        self.change(key, move |store| {
            store.put(&name, body, &condition, &metadata)
        })
    }

    fn create_upload(&self, key: &str, metadata: &Metadata) -> Result<Upload> {
        let (name, metadata) = (key.to_owned(), metadata.clone());
        let snapshot = self.snapshot(key);
        let create = move |store: &Store| store.create_upload(&name, &metadata);
        let upload = self.change_of(key, &snapshot, create)?;
        if let Some(shared) = self.shared.upgrade() {
            if !shared.is_writing(self.gateway) {
                self.begun.lock().insert(upload.id.clone(), snapshot);
            }
            let known = (self.gateway, upload.id.clone());
            shared.uploads.lock().push(known);
        }
        Ok(upload)
    }

    fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        let of = upload.clone();
        self.commits(upload);
        self.change(&upload.key, move |store| {
            store.upload_part(&of, number, body)
        })
    }

    fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Part> {
        let (of, source, version) = (upload.clone(), source.to_owned(), version.clone());
        self.change(&upload.key, move |store| {
            store.copy_part(&of, number, &source, &version, range)
        })
    }

    fn complete(&self, upload: &Upload, parts: &[Part], condition: &Condition) -> Result<Version> {
        let (of, parts, condition) = (upload.clone(), parts.to_vec(), condition.clone());
        self.commits(upload);
        let begun = self.begun.lock().get(&upload.id).cloned();
        let snapshot = begun.unwrap_or_else(|| self.snapshot(&upload.key));
        let complete = move |store: &Store| store.complete(&of, &parts, &condition);
        self.change_of(&upload.key, &snapshot, complete)
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        let of = upload.clone();
        self.change(&upload.key, move |store| store.abort(&of))
    }

    fn uploads(&self, prefix: &str) -> Result<Vec<ListedUpload>> {
        self.ask(|store| store.uploads(prefix))
    }

    fn delete(&self, key: &str, condition: &Condition) -> Result<()> {
        let (name, condition) = (key.to_owned(), condition.clone());
        self.change(key, move |store| store.delete(&name, &condition))
    }

    fn delete_many(&self, keys: &[String]) -> Result<Vec<(String, String)>> {
        self.ask(|store| store.delete_many(keys))
    }

    fn compares_hashes(&self, key: &str) -> Result<bool> {
        self.ask(|store| store.compares_hashes(key))
    }

    fn compares_signed_hashes(&self, upload: &Upload) -> Result<bool> {
        self.ask(|store| store.compares_signed_hashes(upload))
    }

    fn honours_if_match(&self, key: &str) -> Result<bool> {
        self.ask(|store| store.honours_if_match(key))
    }
}
