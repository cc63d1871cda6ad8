//! The objects of a probe: all that it makes is known, and removed at the end.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pagewell_base::sync::Mutex;

use super::Answer;
use crate::error::{Error, Result};
use crate::remote::{ListQuery, Remote, Sink};
use crate::settle::token;
use crate::version::Version;
use crate::writable::{Condition, Metadata, Upload, WritableRemote};

/// Bytes of the source of copied parts: some stores copy ranges only of objects over 5 MiB.
pub(super) const LARGE_BYTES: u32 = 6 << 20;
/// HEADs whose median is the latency; the first one may have to connect.
const HEADS: usize = 9;
const FETCH_TIME: Duration = Duration::from_secs(4);
/// With fewer bytes the latency hides the bandwidth.
const TELLING_BYTES: usize = 64 << 10;

/// Does the work on a thread of its own, and waits for it until then. Late work goes on unseen.
pub(super) fn within<T: Send + 'static>(
    until: Instant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("object-probe".to_owned());
    let work = move || {
        // The waiting may be over.
        let _ = sender.send(work());
    };
    thread.spawn(work).ok()?;
    let left = until.saturating_duration_since(Instant::now());
    receiver.recv_timeout(left).ok()
}

/// Bytes in which no two places of a copy are alike for long.
pub(super) fn pattern(range: Range<u32>) -> Vec<u8> {
    let byte = |at: u32| (at.wrapping_mul(0x9E37_79B1) >> 24) as u8;
    range.map(byte).collect()
}

#[derive(Default)]
pub(super) struct Measured {
    pub latency: Option<Duration>,
    pub bytes_per_second: Option<f64>,
}

pub(super) struct Trial {
    remote: Arc<dyn Remote>,
    folder: String,
    until: Instant,
    keys: Mutex<BTreeSet<String>>,
    uploads: Mutex<Vec<Upload>>,
    large: OnceLock<Result<Version>>,
    sample: Mutex<Option<(String, Version)>>,
}

impl Trial {
    pub(super) fn new(remote: Arc<dyn Remote>, folder: &str, until: Instant) -> Result<Self> {
        Ok(Self {
            remote,
            folder: format!("{folder}.pagewell-probe-{}/", token()?),
            until,
            keys: Mutex::new(BTreeSet::new()),
            uploads: Mutex::new(Vec::new()),
            large: OnceLock::new(),
            sample: Mutex::new(None),
        })
    }

    /// The answer to a question, or that there was no time for it.
    pub(super) fn ask(self: &Arc<Self>, question: fn(&Self) -> Result<Answer>) -> Answer {
        let own = Arc::clone(self);
        let answer = match self.in_time() {
            Ok(()) => within(self.until, move || Answer::from(question(&own))),
            Err(_) => None,
        };
        answer.unwrap_or_else(|| Answer::Unknown("the time of the probe was over".to_owned()))
    }

    /// Refused at the end of the time, so that nothing is made while the cleaning is under way.
    fn in_time(&self) -> Result<()> {
        if Instant::now() < self.until {
            return Ok(());
        }
        let text = "the time of the probe was over";
        Err(Error::TryLater(text.to_owned()))
    }

    pub(super) fn remote(&self) -> &dyn Remote {
        self.remote.as_ref()
    }

    pub(super) fn writable(&self) -> Result<&dyn WritableRemote> {
        self.in_time()?;
        let writable = self.remote.as_writable();
        writable.ok_or_else(|| Error::Unsupported("it cannot be changed".to_owned()))
    }

    pub(super) fn key(&self, name: &str) -> String {
        let key = format!("{}{name}", self.folder);
        self.keys.lock().insert(key.clone());
        key
    }

    pub(super) fn put(
        &self,
        key: &str,
        body: &'static [u8],
        condition: &Condition,
    ) -> Result<Version> {
        let body = Bytes::from_static(body);
        self.writable()?.put(key, body, condition, &Metadata::new())
    }

    pub(super) fn begin(&self, key: &str) -> Result<Upload> {
        let upload = self.writable()?.create_upload(key, &Metadata::new())?;
        self.uploads.lock().push(upload.clone());
        Ok(upload)
    }

    /// An object of [`LARGE_BYTES`], made when it is wanted first.
    pub(super) fn large(&self) -> Result<(String, Version)> {
        let key = self.key("large");
        let make = || {
            let body = Bytes::from(pattern(0..LARGE_BYTES));
            self.writable()?
                .put(&key, body, &Condition::Always, &Metadata::new())
        };
        let version = self.large.get_or_init(make).clone()?;
        Ok((key, version))
    }

    /// Sets the object to be read: the large one where it can be made, else the found one.
    pub(super) fn take_sample(self: &Arc<Self>, found: Option<(String, Version)>, makes: bool) {
        let own = Arc::clone(self);
        let made = || {
            within(self.until, move || {
                let (key, _) = own.large().ok()?;
                let info = own.remote.head(&key).ok()?;
                Some((key, info.version))
            })
        };
        let made = if makes { made().flatten() } else { None };
        *self.sample.lock() = made.or(found);
    }

    pub(super) fn sample(&self) -> Result<(String, Version)> {
        let found = self.sample.lock().clone();
        found.ok_or_else(|| Error::TryLater("there is no file that can be read".to_owned()))
    }

    pub(super) fn listed(&self, prefix: &str) -> Result<Vec<(String, Version)>> {
        let page = self.remote.list(&ListQuery {
            prefix,
            delimiter: false,
            token: None,
            page_entries_max: 100,
        })?;
        let objects = page.objects.into_iter();
        Ok(objects.map(|object| (object.key, object.version)).collect())
    }

    pub(super) fn content(&self, key: &str) -> Result<Vec<u8>> {
        let version = self.remote.head(key)?.version;
        let range = 0..version.length_bytes;
        self.bytes(key, &version, range)
    }

    pub(super) fn bytes(&self, key: &str, version: &Version, range: Range<u64>) -> Result<Vec<u8>> {
        let left = self.until.saturating_duration_since(Instant::now());
        let (bytes, end) = self.fetch(key, version, range, left);
        end.map(|()| bytes)
    }

    /// Bytes that came in that time, and how the fetch ended.
    fn fetch(
        &self,
        key: &str,
        version: &Version,
        range: Range<u64>,
        time: Duration,
    ) -> (Vec<u8>, Result<()>) {
        let (sender, receiver) = mpsc::channel();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let gather = Gather {
            bytes: Arc::clone(&bytes),
            sender,
        };
        self.remote.fetch(key, version, range, Box::new(gather));
        let end = receiver.recv_timeout(time).unwrap_or_else(|_| {
            let text = "it did not come in time";
            Err(Error::TryLater(text.to_owned()))
        });
        let bytes = std::mem::take(&mut *bytes.lock());
        (bytes, end)
    }

    pub(super) fn measure(self: &Arc<Self>) -> Measured {
        let own = Arc::clone(self);
        let measured = within(self.until, move || {
            own.sample().map_or_else(
                |_| Measured::default(),
                |(key, version)| own.measure_by(&key, &version),
            )
        });
        measured.unwrap_or_default()
    }

    fn measure_by(&self, key: &str, version: &Version) -> Measured {
        let head = || {
            let began = Instant::now();
            self.in_time().ok()?;
            self.remote.head(key).ok()?;
            Some(began.elapsed())
        };
        let mut times: Vec<Duration> = (0..HEADS).map_while(|_| head()).collect();
        times.sort();
        let began = Instant::now();
        let range = 0..version.length_bytes.min(LARGE_BYTES.into());
        let left = self.until.saturating_duration_since(began);
        let (bytes, _) = self.fetch(key, version, range, FETCH_TIME.min(left));
        let seconds = began.elapsed().as_secs_f64();
        Measured {
            latency: times.get(times.len() / 2).copied(),
            bytes_per_second: (bytes.len() >= TELLING_BYTES).then(|| bytes.len() as f64 / seconds),
        }
    }

    pub(super) fn clean(self: &Arc<Self>, until: Instant) -> Vec<String> {
        if self.keys.lock().is_empty() {
            return Vec::new();
        }
        let own = Arc::clone(self);
        let left = within(until, move || match own.remote.as_writable() {
            Some(writable) => own.remove(writable),
            None => Vec::new(),
        });
        left.unwrap_or_else(|| vec![self.folder.clone()])
    }

    fn remove(&self, writable: &dyn WritableRemote) -> Vec<String> {
        let mut left = Vec::new();
        for upload in std::mem::take(&mut *self.uploads.lock()) {
            if writable.abort(&upload).is_err() {
                left.push(upload.key);
            }
        }
        // What is below a key goes before it.
        let keys: Vec<String> = self.keys.lock().iter().rev().cloned().collect();
        let failed = match writable.delete_many(&keys) {
            Ok(failed) => failed.into_iter().map(|(key, _)| key).collect(),
            Err(_) => keys,
        };
        let is_there = |key: &String| {
            writable.delete(key, &Condition::Always).is_err()
                && self.remote.head(key) != Err(Error::NotFound)
        };
        left.extend(failed.into_iter().filter(is_there));
        left.sort();
        left.dedup();
        left
    }
}

struct Gather {
    bytes: Arc<Mutex<Vec<u8>>>,
    sender: mpsc::Sender<Result<()>>,
}

impl Sink for Gather {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.lock().extend_from_slice(bytes);
    }

    fn end(self: Box<Self>, result: Result<()>) {
        // The waiting may be over.
        let _ = self.sender.send(result);
    }
}
