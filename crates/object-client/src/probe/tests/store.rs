//! Objects in memory, of a store that answers *no* to some questions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pagewell_base::sync::Mutex;

use crate::activity::Activity;
use crate::error::{Error, Result};
use crate::probe::Question;
use crate::remote::{ListPage, ListQuery, ListedObject, ObjectInfo, Remote, Sink};
use crate::version::Version;
use crate::writable::{Condition, ListedUpload, Metadata, Part, Upload, WritableRemote};

struct Kept {
    body: Bytes,
    etag: String,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Kept>,
    /// Parts by the upload's name.
    uploads: BTreeMap<String, Vec<Bytes>>,
    /// Keys that were given for all changes.
    made: Vec<String>,
    count: u64,
}

pub(super) struct Store {
    is_web: bool,
    faults: Vec<Question>,
    state: Mutex<State>,
}

fn denied() -> Error {
    Error::Denied("of a test: denied".to_owned())
}

fn unsupported() -> Error {
    Error::Unsupported("of a test: unsupported".to_owned())
}

impl State {
    fn tag(&mut self) -> String {
        self.count += 1;
        format!("\"{}\"", self.count)
    }

    fn keep(&mut self, key: &str, body: Bytes) -> Version {
        let (etag, length_bytes) = (self.tag(), body.len() as u64);
        self.made.push(key.to_owned());
        let kept = Kept {
            body,
            etag: etag.clone(),
        };
        self.objects.insert(key.to_owned(), kept);
        Version {
            etag: Some(etag),
            last_modified: None,
            length_bytes,
        }
    }

    fn check(&self, key: &str, condition: &Condition) -> Result<()> {
        match (condition, self.objects.get(key)) {
            (Condition::Always, _) | (Condition::Absent, None) => Ok(()),
            (Condition::Absent, Some(_)) => Err(Error::Exists),
            (Condition::Is(_), None) => Err(Error::NotFound),
            (Condition::Is(version), Some(kept)) if version.etag.as_ref() == Some(&kept.etag) => {
                Ok(())
            }
            (Condition::Is(_), Some(_)) => Err(Error::Changed),
        }
    }
}

impl Store {
    pub(super) fn with(faults: &[Question]) -> Arc<Self> {
        let mut state = State::default();
        state.keep("folder/file", Bytes::from_static(b"bytes of a file"));
        state.made.clear();
        Arc::new(Self {
            is_web: false,
            faults: faults.to_vec(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn of_web(faults: &[Question]) -> Arc<Self> {
        let mut store = Self::with(faults);
        if let Some(store) = Arc::get_mut(&mut store) {
            store.is_web = true;
        }
        store
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let state = self.state.lock();
        assert!(state.uploads.is_empty(), "uploads are left");
        state.objects.keys().cloned().collect()
    }

    pub(super) fn made_below(&self, prefix: &str) -> usize {
        let state = self.state.lock();
        state
            .made
            .iter()
            .filter(|key| key.starts_with(prefix))
            .count()
    }

    fn has(&self, fault: Question) -> bool {
        self.faults.contains(&fault)
    }

    fn version(&self, kept: &Kept) -> Version {
        let weak = if self.has(Question::StrongTag) {
            "W/"
        } else {
            ""
        };
        Version {
            etag: Some(format!("{weak}{}", kept.etag)),
            last_modified: None,
            length_bytes: kept.body.len() as u64,
        }
    }
}

impl Remote for Store {
    fn describe(&self) -> String {
        "a store in memory".to_owned()
    }

    fn head(&self, key: &str) -> Result<ObjectInfo> {
        let state = self.state.lock();
        let kept = state.objects.get(key).ok_or(Error::NotFound)?;
        Ok(ObjectInfo {
            version: self.version(kept),
            metadata: Metadata::new(),
            content_type: None,
        })
    }

    fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        if self.has(Question::Lists) && (self.is_web || query.page_entries_max == 1000) {
            return Err(if self.is_web { unsupported() } else { denied() });
        }
        let state = self.state.lock();
        let found = state.objects.iter().filter(|(key, _)| {
            let is_shown = !(self.has(Question::Marker) && key.ends_with('/'));
            is_shown && key.starts_with(query.prefix)
        });
        let objects = found.map(|(key, kept)| {
            let mut version = self.version(kept);
            if self.has(Question::ListedTag) {
                version.etag = None;
            }
            ListedObject {
                key: key.clone(),
                version,
            }
        });
        Ok(ListPage {
            objects: objects.collect(),
            ..ListPage::default()
        })
    }

    fn fetch(&self, key: &str, version: &Version, range: Range<u64>, mut sink: Box<dyn Sink>) {
        let body = match self.state.lock().objects.get(key) {
            Some(kept) if self.version(kept).is_same(version) => Ok(kept.body.clone()),
            _ => Err(Error::Changed),
        };
        let is_part = range != (0..version.length_bytes);
        let body = match body {
            Ok(_) if is_part && self.has(Question::Ranges) => Err(unsupported()),
            other => other,
        };
        let result = body.map(|body| sink.put(&body[range.start as usize..range.end as usize]));
        sink.end(result);
    }

    fn as_writable(&self) -> Option<&dyn WritableRemote> {
        (!self.is_web).then_some(self)
    }

    fn activity(&self) -> Activity {
        Activity::default()
    }
}

impl WritableRemote for Store {
    fn put(&self, key: &str, body: Bytes, condition: &Condition, _: &Metadata) -> Result<Version> {
        let mut state = self.state.lock();
        let is_below = |other: &String| key.starts_with(&format!("{other}/"));
        if self.has(Question::Change) {
            return Err(denied());
        }
        if self.has(Question::Beside) && state.objects.keys().any(is_below) {
            return Err(Error::Invalid("of a test: a file is there".to_owned()));
        }
        let is_blind = match condition {
            Condition::Always => true,
            Condition::Absent if key.contains("/race-") => self.has(Question::Race),
            Condition::Absent => self.has(Question::Create),
            Condition::Is(_) => self.has(Question::Update),
        };
        if !is_blind {
            state.check(key, condition)?;
        }
        Ok(state.keep(key, body))
    }

    fn create_upload(&self, key: &str, _: &Metadata) -> Result<Upload> {
        let mut state = self.state.lock();
        let id = state.tag();
        state.uploads.insert(id.clone(), Vec::new());
        Ok(Upload {
            key: key.to_owned(),
            id,
            token: String::new(),
            metadata: Metadata::new(),
        })
    }

    fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        let mut state = self.state.lock();
        let length_bytes = body.len() as u64;
        let parts = state.uploads.get_mut(&upload.id).ok_or(Error::NotFound)?;
        parts.push(body);
        Ok(Part {
            number,
            etag: state.tag(),
            length_bytes,
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
        // The fault is in the bytes, so that conditions are looked at all the same.
        let shift = u64::from(self.has(Question::CopyPart));
        let body = {
            let state = self.state.lock();
            if !self.has(Question::StaleCopy) {
                state.check(source, &Condition::Is(version.clone()))?;
            }
            let kept = state.objects.get(source).ok_or(Error::NotFound)?;
            let range = range.start + shift..range.end + shift;
            kept.body.slice(range.start as usize..range.end as usize)
        };
        self.upload_part(upload, number, body)
    }

    fn complete(&self, upload: &Upload, _: &[Part], condition: &Condition) -> Result<Version> {
        let mut state = self.state.lock();
        if !self.has(Question::Complete) {
            state.check(&upload.key, condition)?;
        }
        let parts = state.uploads.remove(&upload.id).ok_or(Error::NotFound)?;
        let body = Bytes::from(parts.concat());
        Ok(state.keep(&upload.key, body))
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        self.state.lock().uploads.remove(&upload.id);
        Ok(())
    }

    fn uploads(&self, _: &str) -> Result<Vec<ListedUpload>> {
        Err(unsupported())
    }

    fn delete(&self, key: &str, condition: &Condition) -> Result<()> {
        let mut state = self.state.lock();
        if !self.has(Question::Delete) {
            state.check(key, condition)?;
        }
        state.objects.remove(key);
        Ok(())
    }

    /// One by one only.
    fn delete_many(&self, _: &[String]) -> Result<Vec<(String, String)>> {
        Err(unsupported())
    }

    fn compares_hashes(&self, key: &str) -> Result<bool> {
        if self.has(Question::WrongHash) {
            self.state.lock().keep(key, Bytes::from_static(b"wrong"));
        }
        Ok(!self.has(Question::WrongHash))
    }

    fn compares_signed_hashes(&self, upload: &Upload) -> Result<bool> {
        let body = Bytes::from_static(b"right or wrong");
        self.state.lock().keep(&upload.key, body);
        Ok(!self.has(Question::WrongSignedHash))
    }

    fn signs_bodies(&self) -> bool {
        true
    }

    fn honours_if_match(&self, _: &str) -> Result<bool> {
        Ok(!self.has(Question::StaleRead))
    }
}
