//! A store in memory whose objects can be changed, which notes what it is asked and fails as a test
//! wants. It honours all conditions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use pagewell_base::sync::Mutex;
use pagewell_object_client::{
    Activity, Bytes, Condition, Copies, Error, ListPage, ListQuery, ListedObject, ListedUpload,
    Metadata, ObjectInfo, Part, Remote, Result, Sink, Upload, Version, WritableRemote,
};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Head(String),
    /// Head and bytes.
    Whole(String),
    /// With the prefix.
    List(String),
    Get(String, Range<u64>),
    /// With the bytes of its body.
    Put(String, u64),
    Create(String),
    /// With number and bytes.
    Part(u32, u64),
    Copy(u32, Range<u64>),
    Complete(String),
    Abort(String),
    Uploads(String),
    Delete(String),
    DeleteMany(usize),
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It is not done.
    Before(Error),
    /// It is done, and its answer is lost.
    After(Error),
}

/// Called before each request is done, with its number from 0.
type Hook = Arc<dyn Fn(usize, &Asked) -> Fault + Send + Sync>;

#[derive(Clone)]
struct Kept {
    bytes: Vec<u8>,
    version: u64,
    metadata: Metadata,
}

struct Begun {
    key: String,
    metadata: Metadata,
    parts: BTreeMap<u32, (String, Bytes)>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Kept>,
    uploads: BTreeMap<String, Begun>,
    /// Versions and uploads so far.
    names: u64,
    asked: Vec<Asked>,
}

/// See the module's text.
pub(crate) struct Store {
    state: Mutex<State>,
    hook: Mutex<Option<Hook>>,
    /// Of all parts of an object but the last.
    part_bytes_min: u64,
    page_entries_max: usize,
    copies: Copies,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(0, 1_000)
    }
}

impl Store {
    pub(crate) fn new(part_bytes_min: u64, page_entries_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            hook: Mutex::default(),
            part_bytes_min,
            page_entries_max,
            copies: Copies::Ranges,
        }
    }

    /// The same that copies objects only as a whole.
    pub(crate) fn of_whole_copies(self) -> Self {
        let copies = Copies::Objects;
        Self { copies, ..self }
    }

    /// From now on `hook` decides what becomes of requests. It may wait, and change objects.
    pub(crate) fn hook(&self, hook: impl Fn(usize, &Asked) -> Fault + Send + Sync + 'static) {
        *self.hook.lock() = Some(Arc::new(hook));
    }

    /// From now on all requests are done.
    pub(crate) fn unhook(&self) {
        *self.hook.lock() = None;
    }

    /// Makes an object as another client would, and returns its version.
    pub(crate) fn place(&self, key: &str, bytes: &[u8], metadata: &Metadata) -> Version {
        let mut state = self.state.lock();
        state.keep(key, bytes.to_vec(), metadata.clone())
    }

    pub(crate) fn remove(&self, key: &str) {
        self.state.lock().objects.remove(key);
    }

    pub(crate) fn version(&self, key: &str) -> Option<Version> {
        let state = self.state.lock();
        state.objects.get(key).map(Kept::version)
    }

    pub(crate) fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.objects.get(key).map(|kept| kept.bytes.clone())
    }

    pub(crate) fn metadata(&self, key: &str) -> Option<Metadata> {
        let state = self.state.lock();
        state.objects.get(key).map(|kept| kept.metadata.clone())
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.lock().objects.keys().cloned().collect()
    }

    /// Uploads that have neither ended nor been given up.
    pub(crate) fn uploads_left(&self) -> usize {
        self.state.lock().uploads.len()
    }

    /// Parts of uploads that have not ended.
    pub(crate) fn parts_there(&self) -> usize {
        let state = self.state.lock();
        state.uploads.values().map(|begun| begun.parts.len()).sum()
    }

    /// Ends all uploads, as a rule of the store does.
    pub(crate) fn end_uploads(&self) {
        self.state.lock().uploads.clear();
    }

    /// What was asked since this was asked last.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().asked)
    }

    /// Does a request, or not, as the hook says.
    fn answer<T>(&self, asked: Asked, work: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        let number = state.asked.len();
        state.asked.push(asked.clone());
        drop(state);
        let hook = self.hook.lock().clone();
        let fault = hook.map_or(Fault::None, |hook| hook(number, &asked));
        if let Fault::Before(error) = fault {
            return Err(error);
        }
        let result = work(&mut self.state.lock());
        match fault {
            Fault::After(error) => Err(error),
            _ => result,
        }
    }
}

impl Kept {
    fn version(&self) -> Version {
        Version {
            etag: Some(format!("\"{}\"", self.version)),
            last_modified: Some(UNIX_EPOCH + Duration::from_secs(1_000_000)),
            length_bytes: self.bytes.len() as u64,
        }
    }

    fn info(&self) -> ObjectInfo {
        ObjectInfo {
            version: self.version(),
            metadata: self.metadata.clone(),
            content_type: None,
        }
    }

    fn range(&self, range: &Range<u64>) -> Result<&[u8]> {
        let wrong = || Error::Invalid(format!("there are no bytes {range:?}"));
        let index = |at: u64| usize::try_from(at).map_err(|_| wrong());
        let (start, end) = (index(range.start)?, index(range.end)?);
        self.bytes.get(start..end).ok_or_else(wrong)
    }
}

impl State {
    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn keep(&mut self, key: &str, bytes: Vec<u8>, metadata: Metadata) -> Version {
        let kept = Kept {
            bytes,
            version: self.name(),
            metadata,
        };
        let version = kept.version();
        self.objects.insert(key.to_owned(), kept);
        version
    }

    fn check(&self, key: &str, condition: &Condition) -> Result<()> {
        match (condition, self.objects.get(key)) {
            (Condition::Always, _) | (Condition::Absent, None) => Ok(()),
            (Condition::Absent, Some(_)) => Err(Error::Exists),
            (Condition::Is(_), None) => Err(Error::NotFound),
            (Condition::Is(version), Some(kept)) if kept.version().is_same(version) => Ok(()),
            (Condition::Is(_), Some(_)) => Err(Error::Changed),
        }
    }

    fn version_of(&self, key: &str, version: &Version) -> Result<&Kept> {
        match self.objects.get(key) {
            None => Err(Error::NotFound),
            Some(kept) if !kept.version().is_same(version) => Err(Error::Changed),
            Some(kept) => Ok(kept),
        }
    }

    fn add(&mut self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        let etag = format!("\"{}\"", self.name());
        let begun = self.uploads.get_mut(&upload.id).ok_or(Error::NotFound)?;
        let part = Part {
            number,
            etag: etag.clone(),
            length_bytes: body.len() as u64,
        };
        begun.parts.insert(number, (etag, body));
        Ok(part)
    }

    fn complete(&mut self, upload: &Upload, parts: &[Part], least: u64) -> Result<Version> {
        let begun = self.uploads.get(&upload.id).ok_or(Error::NotFound)?;
        let mut bytes = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let wrong = || Error::Invalid(format!("the part {} is not right", part.number));
            let (etag, body) = begun.parts.get(&part.number).ok_or_else(wrong)?;
            let is_small = at + 1 < parts.len() && (body.len() as u64) < least;
            let is_in_order = parts
                .get(at + 1)
                .is_none_or(|next| next.number > part.number);
            if *etag != part.etag || is_small || !is_in_order {
                return Err(wrong());
            }
            bytes.extend_from_slice(body);
        }
        let begun = self.uploads.remove(&upload.id).ok_or(Error::NotFound)?;
        Ok(self.keep(&begun.key, bytes, begun.metadata))
    }
}

impl Remote for Store {
    fn describe(&self) -> String {
        "s3://bucket".to_owned()
    }

    fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.answer(Asked::Head(key.to_owned()), |state| {
            let kept = state.objects.get(key).ok_or(Error::NotFound)?;
            Ok(kept.info())
        })
    }

    fn get(&self, key: &str, bytes_max: u64) -> Result<(ObjectInfo, Option<Bytes>)> {
        self.answer(Asked::Whole(key.to_owned()), |state| {
            let kept = state.objects.get(key).ok_or(Error::NotFound)?;
            let is_small = kept.bytes.len() as u64 <= bytes_max;
            Ok((
                kept.info(),
                is_small.then(|| Bytes::from(kept.bytes.clone())),
            ))
        })
    }

    fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        let wanted = self.page_entries_max.min(query.page_entries_max as usize);
        let after = query.token.clone().unwrap_or_default();
        self.answer(Asked::List(query.prefix.to_owned()), |state| {
            let mut page = ListPage::default();
            let mut last = String::new();
            for (key, kept) in &state.objects {
                let Some(rest) = key.strip_prefix(query.prefix) else {
                    continue;
                };
                let prefix = rest.find('/').filter(|_| query.delimiter);
                let prefix = prefix.map(|at| [query.prefix, &rest[..=at]].concat());
                let entry = prefix.clone().unwrap_or_else(|| key.clone());
                if entry <= after || entry == last {
                    continue;
                }
                if page.objects.len() + page.prefixes.len() == wanted {
                    page.next = Some(last);
                    break;
                }
                match prefix {
                    Some(prefix) => page.prefixes.push(prefix),
                    None => page.objects.push(ListedObject {
                        key: key.clone(),
                        version: kept.version(),
                    }),
                }
                last = entry;
            }
            Ok(page)
        })
    }

    fn fetch(&self, key: &str, version: &Version, range: Range<u64>, mut sink: Box<dyn Sink>) {
        let asked = Asked::Get(key.to_owned(), range.clone());
        let result = self.answer(asked, |state| {
            let kept = state.version_of(key, version)?;
            Ok(kept.range(&range)?.to_vec())
        });
        // In parts of an odd length, as from a network.
        let result = result.map(|bytes| bytes.chunks(4_321).for_each(|part| sink.put(part)));
        sink.end(result);
    }

    fn as_writable(&self) -> Option<&dyn WritableRemote> {
        Some(self)
    }

    fn activity(&self) -> Activity {
        Activity::default()
    }
}

impl WritableRemote for Store {
    fn takes(&self, key: &str) -> bool {
        !key.contains('\\')
    }

    fn put(
        &self,
        key: &str,
        body: Bytes,
        condition: &Condition,
        metadata: &Metadata,
    ) -> Result<Version> {
        let asked = Asked::Put(key.to_owned(), body.len() as u64);
        self.answer(asked, |state| {
            state.check(key, condition)?;
            Ok(state.keep(key, body.to_vec(), metadata.clone()))
        })
    }

    fn replaces_parts(&self) -> bool {
        self.copies == Copies::Ranges
    }

    fn copies(&self) -> Copies {
        self.copies
    }

    fn create_upload(&self, key: &str, metadata: &Metadata) -> Result<Upload> {
        self.answer(Asked::Create(key.to_owned()), |state| {
            let id = format!("upload-{}", state.name());
            let begun = Begun {
                key: key.to_owned(),
                metadata: metadata.clone(),
                parts: BTreeMap::new(),
            };
            state.uploads.insert(id.clone(), begun);
            Ok(Upload {
                key: key.to_owned(),
                token: id.clone(),
                metadata: Metadata::new(),
                id,
            })
        })
    }

    fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        let asked = Asked::Part(number, body.len() as u64);
        self.answer(asked, |state| state.add(upload, number, body))
    }

    fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Part> {
        self.answer(Asked::Copy(number, range.clone()), |state| {
            let kept = state.version_of(source, version)?;
            if self.copies == Copies::Objects && range != (0..kept.bytes.len() as u64) {
                return Err(Error::Unsupported("it copies no ranges".to_owned()));
            }
            let body = Bytes::copy_from_slice(kept.range(&range)?);
            state.add(upload, number, body)
        })
    }

    fn complete(&self, upload: &Upload, parts: &[Part], condition: &Condition) -> Result<Version> {
        self.answer(Asked::Complete(upload.key.clone()), |state| {
            state.check(&upload.key, condition)?;
            state.complete(upload, parts, self.part_bytes_min)
        })
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        self.answer(Asked::Abort(upload.key.clone()), |state| {
            state.uploads.remove(&upload.id);
            Ok(())
        })
    }

    fn uploads(&self, prefix: &str) -> Result<Vec<ListedUpload>> {
        self.answer(Asked::Uploads(prefix.to_owned()), |state| {
            let uploads = state.uploads.iter();
            let uploads = uploads.filter(|(_, begun)| begun.key.starts_with(prefix));
            let listed = uploads.map(|(id, begun)| ListedUpload {
                key: begun.key.clone(),
                id: id.clone(),
                initiated: None,
            });
            Ok(listed.collect())
        })
    }

    fn delete(&self, key: &str, condition: &Condition) -> Result<()> {
        self.answer(Asked::Delete(key.to_owned()), |state| {
            state.check(key, condition)?;
            state.objects.remove(key);
            Ok(())
        })
    }

    fn delete_many(&self, keys: &[String]) -> Result<Vec<(String, String)>> {
        self.answer(Asked::DeleteMany(keys.len()), |state| {
            keys.iter().for_each(|key| {
                state.objects.remove(key);
            });
            Ok(Vec::new())
        })
    }

    fn compares_hashes(&self, _key: &str) -> Result<bool> {
        Ok(true)
    }

    fn compares_signed_hashes(&self, _upload: &Upload) -> Result<bool> {
        Ok(true)
    }

    fn honours_if_match(&self, _key: &str) -> Result<bool> {
        Ok(true)
    }
}
