//! Bytes of one version of an object on their way from a remote into the memory of a request.
//!
//! One copy: from the transport's memory to the page. Whole pages go to the disk tier, if there is
//! one, and are taken from there before they are asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_device::{Error as DeviceError, Geometry, Operation, Outcome, Request, complete};
use pagewell_disk_tier::{PAGE_BYTES, Tier, TierVersion};
use pagewell_object_client::{Error as RemoteError, Remote, Result as RemoteResult, Sink, Version};
use rustix::io::Errno;

use super::error;
use super::identifier::hash_of;

const QUEUE_DEPTH: u32 = 64;
/// The best size of a request: one costs as much time as some of its bytes, and money, and a reader
/// waits for all of it.
pub(super) const REQUEST_BYTES: u64 = 8 << 20;

/// A request is a page at least, as it costs more than its bytes.
pub(super) const GEOMETRY: Geometry = Geometry {
    logical_block_bytes: PAGE_BYTES as u32,
    memory_alignment_bytes: 1,
    transfer_bytes_max: REQUEST_BYTES as u32,
    rotational: false,
    queue_depth: QUEUE_DEPTH,
};

pub(super) struct RemoteVersion {
    remote: Arc<dyn Remote>,
    key: Box<str>,
    version: Version,
    tier: Option<TierVersion>,
    name: String,
    /// The remote has another version, or none.
    is_gone: AtomicBool,
    failure: Mutex<Option<RemoteError>>,
}

impl RemoteVersion {
    pub(super) fn new(
        remote: Arc<dyn Remote>,
        (place, key): (&str, &str),
        version: Version,
        tier: Option<Arc<Tier>>,
    ) -> Self {
        let name = match remote.describe() {
            // An address on the web names the object already.
            whole if whole.ends_with(key) => whole,
            place => format!("{place}: {key}"),
        };
        // Without a strong tag two versions may look alike.
        let tag = version.strong_etag().unwrap_or_default();
        let text = format!("{place}\n{key}\n{}\n{tag}", version.length_bytes);
        let tier = tier
            .filter(|_| !version.is_weak())
            .map(|tier| TierVersion::new(tier, hash_of(&text).bytes(), version.length_bytes));
        Self {
            tier,
            name,
            remote,
            key: key.into(),
            version,
            is_gone: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    pub(super) fn failure(&self) -> Option<String> {
        let failure = self.failure.lock();
        failure
            .as_ref()
            .map(|error| format!("{}: {error}", self.name))
    }

    /// Serves a request of the cache. Bytes behind the end are zeros.
    pub(super) fn submit(self: &Arc<Self>, request: Request) {
        match request.operation() {
            Operation::Flush => complete_whole(request),
            Operation::Write => {
                let offset = request.offset();
                let refused = DeviceError::failed(&self.name, offset, Errno::ROFS);
                complete_at(request, 0, refused);
            }
            Operation::Read => match &self.tier {
                Some(tier) => self.read_through(tier, request),
                None => self.fetch(request, None),
            },
        }
    }

    /// Fetches what a request is for; whole pages go to the tier.
    fn fetch(self: &Arc<Self>, request: Request, tier: Option<&TierVersion>) {
        let offset = request.offset();
        let there = request.bytes_there(self.version.length_bytes);
        let mut arrival = Arrival {
            from: self.clone(),
            tier: tier.cloned(),
            request: Some(request),
            segment: 0,
            filled_bytes: 0,
            within_bytes: 0,
        };
        if there == 0 {
            arrival.finish(Ok(()));
            return;
        }
        let range = offset..offset + there as u64;
        let sink = Box::new(arrival);
        self.remote.fetch(&self.key, &self.version, range, sink);
    }

    /// Takes from the tier the pages that it has, and fetches the others, adjacent ones with one
    /// request.
    fn read_through(self: &Arc<Self>, tier: &TierVersion, request: Request) {
        for (piece, is_kept) in tier.pieces(request) {
            if !is_kept {
                self.fetch(piece, Some(tier));
                continue;
            }
            let (from, again) = (self.clone(), tier.clone());
            tier.take(piece, move |piece| from.fetch(piece, Some(&again)));
        }
    }
}

fn complete_whole(request: Request) {
    let transferred_bytes = request.len();
    complete(
        request,
        Outcome {
            transferred_bytes,
            result: Ok(()),
        },
    );
}

fn complete_at(request: Request, transferred_bytes: usize, error: DeviceError) {
    complete(
        request,
        Outcome {
            transferred_bytes,
            result: Err(error),
        },
    );
}

/// A request that is being filled, in order. Dropped, it fails.
struct Arrival {
    from: Arc<RemoteVersion>,
    /// Where whole pages go, too.
    tier: Option<TierVersion>,
    request: Option<Request>,
    filled_bytes: usize,
    /// The segment that is being filled, and its bytes that are.
    segment: usize,
    within_bytes: usize,
}

impl Arrival {
    /// Fills in the next bytes; what has no place is left out.
    fn fill(&mut self, mut bytes: &[u8]) {
        let Some(request) = &mut self.request else {
            return;
        };
        for place in request.slices_mut().skip(self.segment) {
            let free = place.get_mut(self.within_bytes..).unwrap_or_default();
            let taken = free.len().min(bytes.len());
            let (now, later) = bytes.split_at(taken);
            if let Some(target) = free.get_mut(..taken) {
                target.copy_from_slice(now);
            }
            self.filled_bytes += taken;
            bytes = later;
            if taken < free.len() {
                self.within_bytes += taken;
                return;
            }
            self.segment += 1;
            self.within_bytes = 0;
        }
    }

    fn finish(&mut self, result: RemoteResult<()>) {
        let wanted = self.request.as_ref().map_or(0, |request| {
            request.bytes_there(self.from.version.length_bytes)
        });
        let result = match result {
            Ok(()) if self.filled_bytes < wanted => Err(RemoteError::Protocol(
                "the server sent less than it announced".to_owned(),
            )),
            other => other,
        };
        let filled_bytes = self.filled_bytes;
        if result.is_ok() {
            self.fill_zeros();
        }
        let Some(request) = self.request.take() else {
            return;
        };
        match result {
            Ok(()) => {
                if let Some(tier) = &self.tier {
                    tier.keep(&request);
                }
                complete_whole(request);
            }
            Err(failure) => {
                if matches!(failure, RemoteError::Changed | RemoteError::NotFound) {
                    names::OBJECT_CHANGED.add(1);
                    self.from.is_gone.store(true, Ordering::Release);
                }
                // A failed request has not all of its bytes, though the end may have failed alone.
                let filled_bytes = filled_bytes.min(request.len().saturating_sub(1));
                let at = request.offset() + filled_bytes as u64;
                let error = error::of_fetch(&self.from.name, at, &failure);
                *self.from.failure.lock() = Some(failure);
                complete_at(request, filled_bytes, error);
            }
        }
    }

    fn fill_zeros(&mut self) {
        let Some(request) = &mut self.request else {
            return;
        };
        for place in request.slices_mut().skip(self.segment) {
            let free = place.get_mut(self.within_bytes..).unwrap_or_default();
            free.fill(0);
            self.within_bytes = 0;
        }
    }
}

impl Sink for Arrival {
    fn put(&mut self, bytes: &[u8]) {
        self.fill(bytes);
    }

    fn end(mut self: Box<Self>, result: RemoteResult<()>) {
        self.finish(result);
    }
}
