//! A bucket in memory that counts what it is asked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use pagewell_object_client::{
    Activity, Error, ListPage, ListQuery, ListedObject, ObjectInfo, Remote, Result, Sink, Version,
    WritableRemote,
};

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) lists: u64,
    pub(crate) heads: u64,
    pub(crate) ranges: Vec<Range<u64>>,
}

struct Kept {
    bytes: Vec<u8>,
    version: u64,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Kept>,
    versions: u64,
    asked: Asked,
    is_silent: bool,
    is_closed: bool,
}

pub(crate) struct Bucket {
    state: Mutex<State>,
    /// Whether bytes are held back, and what is notified when they are not any more.
    held: Arc<(Mutex<bool>, Condvar)>,
    page_entries: usize,
    lists_tags: bool,
}

impl Bucket {
    pub(crate) fn new(page_entries: usize) -> Self {
        Self {
            state: Mutex::default(),
            held: Arc::default(),
            page_entries,
            lists_tags: true,
        }
    }

    /// One whose listings have no tags.
    pub(crate) fn without_tags(self) -> Self {
        Self {
            lists_tags: false,
            ..self
        }
    }

    pub(crate) fn put(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state.lock().unwrap();
        state.versions += 1;
        let kept = Kept {
            bytes: bytes.into(),
            version: state.versions,
        };
        state.objects.insert(key.to_owned(), kept);
    }

    /// With the tag of another version of another object.
    pub(crate) fn put_as(&self, key: &str, bytes: &str, version: u64) {
        let kept = Kept {
            bytes: bytes.into(),
            version,
        };
        let mut state = self.state.lock().unwrap();
        state.objects.insert(key.to_owned(), kept);
    }

    pub(crate) fn remove(&self, key: &str) {
        self.state.lock().unwrap().objects.remove(key);
    }

    /// Gives no answers from now on, or gives them again.
    pub(crate) fn be_silent(&self, is_silent: bool) {
        self.state.lock().unwrap().is_silent = is_silent;
    }

    /// Refuses to say what an object is from now on.
    pub(crate) fn refuse(&self) {
        self.state.lock().unwrap().is_closed = true;
    }

    /// Holds bytes back from now on, or lets them go.
    pub(crate) fn hold(&self, is_held: bool) {
        *self.held.0.lock().unwrap() = is_held;
        self.held.1.notify_all();
    }

    pub(crate) fn asked(&self) -> Asked {
        self.state.lock().unwrap().asked.clone()
    }
}

fn version_of(kept: &Kept, has_tag: bool) -> Version {
    Version {
        etag: has_tag.then(|| format!("\"{}\"", kept.version)),
        last_modified: Some(UNIX_EPOCH + Duration::from_secs(1_000_000)),
        length_bytes: kept.bytes.len() as u64,
    }
}

fn silent() -> Error {
    Error::Unreachable("the test has cut the connection".to_owned())
}

impl Remote for Bucket {
    fn describe(&self) -> String {
        "s3://bucket".to_owned()
    }

    fn head(&self, key: &str) -> Result<ObjectInfo> {
        let mut state = self.state.lock().unwrap();
        state.asked.heads += 1;
        if state.is_silent {
            return Err(silent());
        }
        if state.is_closed {
            return Err(Error::Denied("the test has taken the right".to_owned()));
        }
        let kept = state.objects.get(key).ok_or(Error::NotFound)?;
        Ok(ObjectInfo {
            version: version_of(kept, true),
            metadata: Vec::new(),
            content_type: None,
        })
    }

    fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        let mut state = self.state.lock().unwrap();
        state.asked.lists += 1;
        if state.is_silent {
            return Err(silent());
        }
        let wanted = self.page_entries.min(query.page_entries_max as usize);
        let mut page = ListPage::default();
        let after = query.token.clone().unwrap_or_default();
        for (key, kept) in &state.objects {
            let Some(rest) = key.strip_prefix(query.prefix) else {
                continue;
            };
            let prefix = rest.find('/').filter(|_| query.delimiter);
            let prefix = prefix.map(|at| [query.prefix, &rest[..=at]].concat());
            let entry = prefix.as_ref().unwrap_or(key);
            if *entry <= after || page.prefixes.last() == prefix.as_ref() && prefix.is_some() {
                continue;
            }
            if page.objects.len() + page.prefixes.len() == wanted {
                let last_object = page
                    .objects
                    .last()
                    .map(|object: &ListedObject| object.key.clone());
                page.next = last_object.max(page.prefixes.last().cloned());
                break;
            }
            match prefix {
                Some(prefix) => page.prefixes.push(prefix),
                None => page.objects.push(ListedObject {
                    key: key.clone(),
                    version: version_of(kept, self.lists_tags),
                }),
            }
        }
        Ok(page)
    }

    fn fetch(&self, key: &str, version: &Version, range: Range<u64>, mut sink: Box<dyn Sink>) {
        let mut state = self.state.lock().unwrap();
        state.asked.ranges.push(range.clone());
        let result = match state.objects.get(key) {
            _ if state.is_silent => Err(silent()),
            None => Err(Error::NotFound),
            Some(kept) if !version_of(kept, true).is_same(version) => Err(Error::Changed),
            Some(kept) => {
                let range =
                    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                Ok(kept.bytes[range].to_vec())
            }
        };
        drop(state);
        // As from a network: on another thread, in parts of odd lengths.
        let held = self.held.clone();
        std::thread::spawn(move || {
            let is_held = held.0.lock().unwrap();
            drop(held.1.wait_while(is_held, |is_held| *is_held).unwrap());
            let result = result.map(|bytes| {
                bytes.chunks(4321).for_each(|part| sink.put(part));
            });
            sink.end(result);
        });
    }

    fn as_writable(&self) -> Option<&dyn WritableRemote> {
        None
    }

    fn activity(&self) -> Activity {
        Activity::default()
    }
}
