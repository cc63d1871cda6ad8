//! The pages of one version of an object, between the requests of a cache and the tier.

use std::sync::Arc;

use pagewell_device::{Outcome, Request, complete};

use super::record::{PAGE_BYTES, PageName};
use super::tier::Tier;

/// What the tier has, and may be given, of one version.
#[derive(Clone)]
pub struct TierVersion {
    tier: Arc<Tier>,
    object: [u8; 16],
    length_bytes: u64,
}

impl TierVersion {
    /// `object`: see [`PageName::object`].
    #[must_use]
    pub fn new(tier: Arc<Tier>, object: [u8; 16], length_bytes: u64) -> Self {
        Self {
            tier,
            object,
            length_bytes,
        }
    }

    /// The page with this byte.
    fn name_at(&self, offset: u64) -> PageName {
        PageName {
            object: self.object,
            page: offset / PAGE_BYTES as u64,
        }
    }

    /// Cuts a read into pieces, each with whether the tier has it: those lie within one page,
    /// others are as long as can be.
    #[must_use]
    pub fn pieces(&self, request: Request) -> Vec<(Request, bool)> {
        let mut lengths = Vec::new();
        let mut are_kept = Vec::new();
        let (mut at, end) = (request.offset(), request.offset() + request.len() as u64);
        while at < end {
            let next = (at / PAGE_BYTES as u64 + 1) * PAGE_BYTES as u64;
            let length = usize::try_from(next.min(end) - at).unwrap_or(PAGE_BYTES);
            let is_kept = self.tier.has(&self.name_at(at));
            match (lengths.last_mut(), are_kept.last()) {
                (Some(before), Some(false)) if !is_kept => *before += length,
                _ => {
                    lengths.push(length);
                    are_kept.push(is_kept);
                }
            }
            at += length as u64;
        }
        request.split(&lengths).into_iter().zip(are_kept).collect()
    }

    /// Serves a read within one page, with zeros behind the object's end; `otherwise` gets it if
    /// the page is lost.
    pub fn take(&self, mut request: Request, otherwise: impl FnOnce(Request) + Send + 'static) {
        let name = self.name_at(request.offset());
        let within = usize::try_from(request.offset() % PAGE_BYTES as u64).unwrap_or(0);
        let there = request.bytes_there(self.length_bytes);
        self.tier.read(name, move |found| {
            let found = found.and_then(|page| page.get(within..within + there));
            let Some(bytes) = found else {
                return otherwise(request);
            };
            fill(&mut request, bytes);
            let transferred_bytes = request.len();
            let result = Ok(());
            let outcome = Outcome {
                transferred_bytes,
                result,
            };
            complete(request, outcome);
        });
    }

    /// Keeps pages that a read has brought whole, to their end or the object's.
    pub fn keep(&self, request: &Request) {
        let mut page = Vec::with_capacity(PAGE_BYTES);
        let mut at = request.offset();
        for mut bytes in request.slices() {
            while !bytes.is_empty() {
                let within = usize::try_from(at % PAGE_BYTES as u64).unwrap_or(0);
                let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - within));
                bytes = later;
                if page.len() == within {
                    page.extend_from_slice(now);
                }
                let start = at - within as u64;
                at += now.len() as u64;
                let wanted = (self.length_bytes.saturating_sub(start)).min(PAGE_BYTES as u64);
                let wanted = usize::try_from(wanted).unwrap_or(PAGE_BYTES);
                if wanted > 0 && page.len() >= wanted {
                    let whole = page.get(..wanted).unwrap_or_default();
                    self.tier.write(self.name_at(start), whole);
                }
                if at.is_multiple_of(PAGE_BYTES as u64) {
                    page.clear();
                }
            }
        }
    }
}

/// Fills a request with these bytes, and with zeros behind them.
pub fn fill(request: &mut Request, mut bytes: &[u8]) {
    for place in request.slices_mut() {
        let (now, later) = bytes.split_at(place.len().min(bytes.len()));
        let (filled, behind) = place.split_at_mut(now.len());
        filled.copy_from_slice(now);
        behind.fill(0);
        bytes = later;
    }
}
