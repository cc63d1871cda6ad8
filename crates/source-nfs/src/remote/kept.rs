//! Pages of files in the disk tier, behind memory.
//!
//! **Which version.** NFSv3 has no tag for one. A page is identified by the server, and handle,
//! number, size and both times of change of its file, as they are known now. Nothing is looked for,
//! or kept, while a call of ours may have changed the file since that report, or has bytes that are
//! not safe at the server.
//!
//! **What is kept** is what READs brought whose attributes were those known when they were sent:
//! the bytes are of that version, if each change moves a time. Two changes within one tick of a
//! server's clock look alike; so a file that changed within the last minute is not kept.
//!
//! **Whole pages.** A missing part of a page is read with the rest of its page.
//!
//! **Known weaknesses.** This machine's clock measures the time since a change: where it is ahead
//! of the server's by more than a minute, two changes within one tick that keep the size may count
//! as one. Nothing is kept of a server that reports no attributes with READ.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell_device::{Buffer, Request};
use pagewell_disk_tier::{PAGE_BYTES, Tier, TierVersion, fill};
use pagewell_fs::{Timestamp, WccAttributes};
use pagewell_sunrpc::nfs3::FileAttributes;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::Remote;
use crate::attributes::since;
use crate::convert;
use crate::node::{Node, Quiet};
use crate::url::Url;

pub(crate) struct MountTier {
    tier: Arc<Tier>,
    /// The server and its export.
    place: String,
    kept_after: Duration,
}

/// One state of a file.
pub(super) struct Version {
    pages: TierVersion,
    quiet: Quiet,
    /// It has not changed lately.
    may_be_kept: bool,
}

/// A read whose pages are to be kept.
pub(super) struct Keeping {
    version: Arc<Version>,
    differs: AtomicBool,
}

impl MountTier {
    pub(crate) fn new(tier: Arc<Tier>, url: &Url) -> Self {
        let (name, options) = (url.name(), &url.options);
        Self {
            tier,
            place: format!("{name}\n{:?}", options.port),
            kept_after: options.kept_after,
        }
    }

    /// The known version of a file; `None` while a call of ours may have made another.
    pub(super) fn version(&self, node: &Node) -> Option<Arc<Version>> {
        let quiet = node.lock().quiet()?;
        let mut hasher = SipHasher13::new();
        let parts: [&[u8]; 3] = [b"nfs", self.place.as_bytes(), node.id().as_bytes()];
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        let WccAttributes {
            size,
            modified,
            changed,
        } = quiet.state;
        hasher.write_u64(quiet.file_id);
        hasher.write_u64(size);
        for time in [modified, changed] {
            hasher.write_i64(time.seconds);
            hasher.write_u32(time.nanoseconds);
        }
        let object = hasher.finish128().as_bytes();
        Some(Arc::new(Version {
            pages: TierVersion::new(self.tier.clone(), object, size),
            may_be_kept: since(changed, Timestamp::now()) >= self.kept_after,
            quiet,
        }))
    }
}

impl Version {
    /// Cuts a read into runs of whole pages (true) and parts of pages.
    fn runs(&self, request: Request) -> Vec<(Request, bool)> {
        let (start, end) = (request.offset(), request.offset() + request.len() as u64);
        let page = PAGE_BYTES as u64;
        let first = start.next_multiple_of(page).min(end);
        // The last page ends with the file.
        let last = match end >= self.quiet.state.size {
            true => end,
            false => (end - end % page).max(first),
        };
        let lengths = [first - start, last - first, end - last];
        let wholes = [false, true, false];
        let parts = lengths.into_iter().zip(wholes);
        let parts = parts.filter(|(length, _)| *length > 0);
        let (lengths, wholes): (Vec<_>, Vec<_>) = parts
            .map(|(length, whole)| (usize::try_from(length).unwrap_or(0), whole))
            .unzip();
        request.split(&lengths).into_iter().zip(wholes).collect()
    }
}

impl Keeping {
    /// A READ was answered, perhaps of another version.
    pub(super) fn answered(&self, node: &Node, attributes: Option<&FileAttributes>) {
        let quiet = &self.version.quiet;
        let is_same =
            attributes.is_some_and(|after| convert::attributes(after, 0).wcc() == quiet.state);
        if !is_same || !node.lock().is_quiet_since(quiet) {
            self.differs();
        }
    }

    /// Its bytes are not those of this version.
    pub(super) fn differs(&self) {
        self.differs.store(true, Ordering::Release);
    }

    pub(super) fn has_length(&self, bytes: u64) -> bool {
        self.version.quiet.state.size == bytes
    }
}

impl Remote {
    /// Takes the pages of the tier, and asks the server for the others.
    pub(super) fn read_through(
        self: &Arc<Self>,
        node: &Arc<Node>,
        version: &Arc<Version>,
        request: Request,
    ) {
        for (piece, is_kept) in version.pages.pieces(request) {
            if !is_kept {
                self.read_and_keep(node, version, piece);
                continue;
            }
            let (this, node, again) = (self.clone(), node.clone(), version.clone());
            let otherwise = move |piece| this.read_and_keep(&node, &again, piece);
            version.pages.take(piece, otherwise);
        }
    }

    fn read_and_keep(self: &Arc<Self>, node: &Arc<Node>, version: &Arc<Version>, request: Request) {
        let is_inside = request.offset() < version.quiet.state.size;
        if !version.may_be_kept || !is_inside {
            return self.read_from_server(node, request, None);
        }
        for (run, is_whole) in version.runs(request) {
            if is_whole {
                self.read_whole(node, version, run);
            } else {
                self.read_around(node, version, run);
            }
        }
    }

    fn read_whole(self: &Arc<Self>, node: &Arc<Node>, version: &Arc<Version>, request: Request) {
        let keeping = Arc::new(Keeping {
            version: version.clone(),
            differs: AtomicBool::new(false),
        });
        let kept = keeping.clone();
        let request = request.relay(move |request, outcome| {
            if outcome.result.is_ok() && !kept.differs.load(Ordering::Acquire) {
                kept.version.pages.keep(&request);
            }
            request.complete(outcome);
        });
        self.read_from_server(node, request, Some(keeping));
    }

    /// Reads a part of a page with all of the page.
    fn read_around(self: &Arc<Self>, node: &Arc<Node>, version: &Arc<Version>, mut part: Request) {
        let page = PAGE_BYTES as u64;
        let start = part.offset() - part.offset() % page;
        let length = version.quiet.state.size.saturating_sub(start).min(page);
        let within = usize::try_from(part.offset() - start).unwrap_or(0);
        let buffer = Buffer::new(usize::try_from(length).unwrap_or(PAGE_BYTES), 8);
        let (this, node_again) = (self.clone(), node.clone());
        let issuer = part.issuer();
        let whole = Request::owned(
            part.operation(),
            start,
            buffer,
            issuer,
            move |outcome, buffer| {
                if outcome.result.is_err() {
                    // What is wanted may come all the same.
                    return this.read_from_server(&node_again, part, None);
                }
                fill(&mut part, buffer.get(within..).unwrap_or_default());
                part.succeed();
            },
        );
        self.read_whole(node, version, whole);
    }
}
