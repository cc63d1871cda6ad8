//! What works on one device, and how it is put together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_device::Device;

use crate::dirty::set::DirtySet;
use crate::flusher::Flusher;
use crate::invalidate::Purger;
use crate::io_queue::IoQueue;
use crate::layout::Layout;
use crate::open_options::OpenOptions;
use crate::read::claim::Fetcher;
use crate::read::hit::Hits;
use crate::read::miss::Misses;
use crate::read::prefetch::{Prefetcher, Streams};
use crate::read::reader::Reader;
use crate::residency::own_pages::OwnPages;
use crate::shared::Shared;
use crate::write::copy_on_write::CopyOnWrite;
use crate::write::writer::Writer;
use crate::writeback::commit::Committer;
use crate::writeback::flush::Flushes;
use crate::writeback::staging::Staging;
use crate::writeback::submit::SubmitLoop;

/// What works on one device, besides its reader.
pub(crate) struct Services {
    pub(crate) dirty: Arc<DirtySet>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) writer: Writer,
    pub(crate) purger: Purger,
}

/// The last user has gone: no caller can write any more.
impl Drop for Services {
    fn drop(&mut self) {
        self.committer.close();
    }
}

/// The parts of a device behind a cache, from those that others know to those that know others.
pub(crate) fn assemble(
    shared: &Shared,
    device: Arc<dyn Device>,
    options: &OpenOptions,
) -> (Arc<Reader>, Arc<Services>) {
    let settings = &shared.options;
    // Preparing memory takes it, so that is only done where it was to be taken at once.
    if settings.populate_bytes >= settings.size_bytes {
        device.register_memory(&shared.pages.arena.memory());
    }
    let geometry = device.geometry();
    let mut layout = Layout::new(&*device, settings, options.file_alignment_bytes);
    let policy = options.streams(layout.length_bytes, layout.unit_bytes, &geometry);
    let streams = Arc::new(Streams::new(policy));
    layout.number = shared
        .pages
        .devices
        .add(&streams, device.keeps_until_flush());
    let elevator = options.elevator(settings, &geometry, layout.request_bytes_max);
    let queue = Arc::new(IoQueue::new(device, elevator));
    if let Some(latency) = options.latency {
        queue.note_latency(latency);
    }
    let pages = shared.pages.clone();
    let own = Arc::new(OwnPages { pages, layout });
    let handles = (shared.quota.clone(), shared.flusher.clone());
    let dirty = DirtySet::new(own.clone(), handles, options);
    let base = Base {
        own,
        queue,
        dirty: Arc::new(dirty),
        flusher: shared.flusher.clone(),
    };
    let (reader, fetcher) = base.reader(shared, options, streams);
    let services = base.services(&shared.staging, options.write_timeout, &reader, fetcher);
    let services = Arc::new(services);
    (reader, services)
}

/// What nearly all parts of a device know.
struct Base {
    own: Arc<OwnPages>,
    queue: Arc<IoQueue>,
    dirty: Arc<DirtySet>,
    flusher: Arc<Flusher>,
}

impl Base {
    /// The parts that read, with what they share with those that write.
    fn reader(
        &self,
        shared: &Shared,
        options: &OpenOptions,
        streams: Arc<Streams>,
    ) -> (Arc<Reader>, Arc<Fetcher>) {
        let settings = &shared.options;
        let (own, queue, dirty) = (&self.own, &self.queue, &self.dirty);
        let rotational = queue.device().geometry().rotational;
        let fetcher = Arc::new(Fetcher {
            own: own.clone(),
            queue: queue.clone(),
            dirty: dirty.clone(),
            widens: !rotational && settings.page_chunk && settings.merge,
        });
        let prefetcher = Arc::new(Prefetcher {
            own: own.clone(),
            fetcher: fetcher.clone(),
            queue: queue.clone(),
            streams,
            drops_behind: settings.free_behind,
            rotational,
            origin: Instant::now(),
        });
        let hits = Hits {
            pages: own.pages.clone(),
            layout: own.layout,
            prefetcher: prefetcher.clone(),
        };
        let misses = Misses {
            own: own.clone(),
            fetcher: fetcher.clone(),
            prefetcher: prefetcher.clone(),
            queue: queue.clone(),
            dirty: dirty.clone(),
            timeout: options.read_timeout,
        };
        let reader = Arc::new(Reader {
            hits,
            misses,
            own: own.clone(),
            queue: queue.clone(),
            prefetcher,
            pins: shared.pins.clone(),
        });
        (reader, fetcher)
    }

    /// The parts that write.
    fn services(
        self,
        staging: &Arc<Staging>,
        timeout: Duration,
        reader: &Arc<Reader>,
        fetcher: Arc<Fetcher>,
    ) -> Services {
        let Self {
            own,
            queue,
            dirty,
            flusher,
        } = self;
        let flushes = Arc::new(Flushes {
            own: own.clone(),
            dirty: dirty.clone(),
            queue: queue.clone(),
            flusher: flusher.clone(),
            keeps: queue.device().keeps_until_flush(),
            timeout,
        });
        let submit = Arc::new(SubmitLoop {
            own: own.clone(),
            dirty: dirty.clone(),
            fetcher,
            queue: queue.clone(),
            flushes: flushes.clone(),
            staging: staging.clone(),
            flusher: flusher.clone(),
        });
        let committer = Arc::new(Committer {
            dirty: dirty.clone(),
            submit: submit.clone(),
            flushes,
            queue: queue.clone(),
            length_bytes: own.layout.length_bytes,
            timeout,
        });
        let copy_on_write = Arc::new(CopyOnWrite {
            own: own.clone(),
            dirty: dirty.clone(),
        });
        let purger = Purger {
            own: own.clone(),
            dirty: dirty.clone(),
            copy_on_write: copy_on_write.clone(),
        };
        let writer = Writer {
            own,
            dirty: dirty.clone(),
            copy_on_write,
            reader: reader.clone(),
            submit,
            committer: committer.clone(),
            queue,
            flusher,
            timeout,
        };
        Services {
            dirty,
            committer,
            writer,
            purger,
        }
    }
}
