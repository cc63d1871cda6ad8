//! Several devices side by side, as ccd does it.
//!
//! Chunks are dealt to the devices in turn:
//!
//! ```text
//!   stripe    | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//!   device 0  | 0 | 3 | 6 |
//!   device 1  | 1 | 4 | 7 |
//!   device 2  | 2 | 5 |
//! ```
//!
//! The chunks of one request that fall to one device lie there one after the other, so they are
//! one request with scattered memory: 1 MiB over 8 devices with chunks of 64 KiB is 8 requests of
//! 128 KiB, not 16 of 64 KiB. A device cuts what is longer than it takes.
//!
//! Every device gives as many whole chunks as the smallest has; what is beyond is not used, and
//! so the stripe ends with a whole chunk.
//!
//! A flush goes to all devices and fails when one of them does.
//!
//! Known weakness: one request is as slow as the slowest of its devices. Chunks that are small
//! against the requests make every request wait for all devices.

use std::sync::Arc;

use pagewell_counters::names::{STRIPE_PIECES_MERGED, STRIPE_REQUESTS_DEALT};

use crate::combined::{CombineError, check_count, geometry_of};
use crate::device::check;
use crate::{Device, Geometry, Memory, Operation, Piece, Request};

/// Devices side by side.
pub struct Stripe {
    name: String,
    children: Vec<Arc<dyn Device>>,
    chunk_bytes: u64,
    length_bytes: u64,
    geometry: Geometry,
}

/// A place of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    child: usize,
    /// On the child.
    offset: u64,
    /// Bytes to the end of the chunk.
    left: u64,
}

impl Stripe {
    /// A stripe of 1 to 64 devices. `chunk_bytes` is a multiple of their blocks and of the
    /// alignment of memory. The length of the smallest, in whole chunks, is used of each.
    pub fn new(
        name: &str,
        children: Vec<Arc<dyn Device>>,
        chunk_bytes: u64,
    ) -> Result<Self, CombineError> {
        check_count(name, children.len())?;
        let one = geometry_of(&children);
        let block_bytes = one.logical_block_bytes.max(one.memory_alignment_bytes);
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(CombineError::Chunk {
                device: name.to_owned(),
                chunk_bytes,
                block_bytes,
            });
        }
        let lengths = children.iter().map(|child| child.length_bytes());
        let smallest = lengths.min().unwrap_or(0);
        let used = smallest - smallest % chunk_bytes;
        let length_bytes = used.checked_mul(children.len() as u64);
        let length_bytes = length_bytes.filter(|bytes| *bytes > 0);
        let length_bytes = length_bytes.ok_or_else(|| CombineError::Length {
            device: name.to_owned(),
            length_bytes: smallest,
        })?;
        let count = children.len() as u32; // at most 64
        let geometry = Geometry {
            transfer_bytes_max: one.transfer_bytes_max.saturating_mul(count),
            ..one
        };
        Ok(Self {
            name: name.to_owned(),
            children,
            chunk_bytes,
            length_bytes,
            geometry,
        })
    }

    fn place(&self, offset: u64) -> Place {
        let count = self.children.len() as u64;
        let (chunk, inside) = (offset / self.chunk_bytes, offset % self.chunk_bytes);
        // Below `count`.
        let child = (chunk % count) as usize;
        Place {
            child,
            offset: chunk / count * self.chunk_bytes + inside,
            left: self.chunk_bytes - inside,
        }
    }

    /// A flush for every child; the first that fails, in their order, decides.
    fn deal_flush(&self, request: Request) -> Vec<(usize, Request)> {
        let flushes = request.fan_out(self.children.len(), |request, outcomes| {
            let failed = outcomes.into_iter().find(|outcome| outcome.result.is_err());
            match failed {
                Some(outcome) => request.complete(outcome),
                None => request.succeed(),
            }
        });
        flushes.into_iter().enumerate().collect()
    }

    /// Deals the request: which child gets what.
    fn deal(&self, request: Request) -> Vec<(usize, Request)> {
        if request.operation() == Operation::Flush {
            return self.deal_flush(request);
        }
        if let Err(error) = check(self, &request) {
            request.fail(0, error);
            return Vec::new();
        }
        if request.is_empty() {
            request.succeed();
            return Vec::new();
        }
        let first = self.place(request.offset());
        if request.len() as u64 <= first.left {
            let mut request = request;
            request.redirect(first.offset);
            return vec![(first.child, request)];
        }
        let (mut pieces, mut children, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = 0;
        while done < request.len() {
            let place = self.place(request.offset() + done as u64);
            let group = pieces.len() % self.children.len();
            if group == pieces.len() {
                // The first chunk of a child says where its request begins.
                children.push(place.child);
                offsets.push(place.offset);
            }
            let rest = request.len() - done;
            let length = usize::try_from(place.left).map_or(rest, |left| left.min(rest));
            pieces.push(Piece { length, group });
            done += length;
        }
        STRIPE_REQUESTS_DEALT.add(1);
        STRIPE_PIECES_MERGED.add((pieces.len() - children.len()) as u64);
        let requests = request.deal(pieces, &offsets);
        children.into_iter().zip(requests).collect()
    }
}

impl Device for Stripe {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn keeps_until_flush(&self) -> bool {
        self.children.iter().any(|child| child.keeps_until_flush())
    }

    fn submit(&self, request: Request) {
        for (child, request) in self.deal(request) {
            self.children[child].submit(request);
        }
    }

    fn submit_many(&self, requests: Vec<Request>) {
        let mut dealt: Vec<Vec<Request>> = self.children.iter().map(|_| Vec::new()).collect();
        for request in requests {
            for (child, request) in self.deal(request) {
                dealt[child].push(request);
            }
        }
        for (child, requests) in self.children.iter().zip(dealt) {
            if !requests.is_empty() {
                child.submit_many(requests);
            }
        }
    }

    fn register_memory(&self, memory: &Memory) {
        for child in &self.children {
            child.register_memory(memory);
        }
    }
}

#[cfg(test)]
mod tests;
