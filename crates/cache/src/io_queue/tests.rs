//! The queue beside devices that answer late, or badly.

use std::collections::VecDeque;

use pagewell_device::{Device, Geometry, OneObject};

use super::*;

use crate::sync::Mutex;

/// Keeps requests until the test answers them.
#[derive(Default)]
struct Slow(Mutex<VecDeque<Request>>);

#[allow(clippy::expect_used)]
impl Slow {
    fn answer(&self, is_well: bool) {
        let request = self.0.lock().pop_front().expect("a request");
        if is_well {
            request.succeed();
        } else {
            let offset = request.offset();
            request.fail(0, Error::Abandoned { offset });
        }
    }

    fn waiting(&self) -> Vec<(Operation, u64)> {
        let waiting = self.0.lock();
        waiting
            .iter()
            .map(|request| (request.operation(), request.offset()))
            .collect()
    }
}

impl Device for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn length_bytes(&self) -> u64 {
        1 << 20
    }
    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }
    fn submit(&self, request: Request) {
        self.0.lock().push_back(request);
    }
}

/// A transfer of an object.
fn transfer(
    object: &Arc<dyn Object>,
    operation: Operation,
    offset: u64,
    ended: &Arc<Mutex<Vec<u64>>>,
) -> Transfer {
    let mut buffer = Buffer::new(4096, 1);
    let (segment, ended) = (buffer.as_segment(), ended.clone());
    Transfer {
        destination: Destination {
            number: 1,
            length_bytes: 1 << 20,
            object: object.clone(),
        },
        extent: Extent {
            offset,
            length: 4096,
        },
        operation,
        durable: false,
        segments: vec![segment],
        issuer: match operation {
            Operation::Write => Issuer::Flusher,
            _ => Issuer::Reader,
        },
        completion: Box::new(move |_, _| {
            drop(buffer);
            ended.lock().push(offset);
        }),
    }
}

fn slow() -> (Arc<Slow>, Arc<dyn Object>, Arc<IoQueue>) {
    let device = Arc::new(Slow::default());
    let store = Arc::new(OneObject::new(device.clone()));
    let queue = IoQueue::new(store.clone(), Settings::flash(1 << 20));
    (device, store, Arc::new(queue))
}

fn submit(queue: &Arc<IoQueue>, transfers: Vec<Transfer>) {
    let named = transfers.into_iter().map(|one| (queue.name_request(), one));
    let named = named.collect();
    // SAFETY: their completions own the memory.
    unsafe { queue.submit(named) };
}

/// A write whose merged request failed is made again by itself, and a read of the same bytes,
/// which nobody has in memory any more, still waits for it.
#[test]
fn no_read_passes_a_piece_that_is_made_again() {
    let (device, object, queue) = slow();
    let ended = Arc::new(Mutex::default());
    let of = |operation, offset| transfer(&object, operation, offset, &ended);
    submit(
        &queue,
        vec![of(Operation::Write, 0), of(Operation::Write, 4096)],
    );
    assert_eq!(device.waiting(), [(Operation::Write, 0)], "merged");
    submit(&queue, vec![of(Operation::Read, 0)]);
    device.answer(false);
    let pieces = [(Operation::Write, 0), (Operation::Write, 4096)];
    assert_eq!(device.waiting(), pieces, "the read waits");
    // Nor does one that comes now.
    submit(&queue, vec![of(Operation::Read, 4096)]);
    device.answer(true);
    assert_eq!(device.waiting(), pieces[1..]);
    device.answer(false);
    assert_eq!(*ended.lock(), [0, 4096], "each ends once");
    let reads = [(Operation::Read, 0), (Operation::Read, 4096)];
    assert!(!device.waiting().is_empty());
    assert!(device.waiting().iter().all(|one| reads.contains(one)));
    while !device.waiting().is_empty() {
        device.answer(true);
    }
    assert_eq!(ended.lock().len(), 4);
}

/// The completion of the last piece panics: what waited for it goes on all the same.
#[test]
fn a_panic_at_the_end_of_a_piece_stops_no_other() {
    let (device, object, queue) = slow();
    let ended = Arc::new(Mutex::default());
    let of = |operation, offset| transfer(&object, operation, offset, &ended);
    let mut last = of(Operation::Write, 4096);
    let completion = last.completion;
    last.completion = Box::new(move |bytes, result| {
        completion(bytes, result);
        panic!("the test wants it");
    });
    submit(&queue, vec![of(Operation::Write, 0), last]);
    submit(&queue, vec![of(Operation::Read, 0)]);
    device.answer(false);
    device.answer(true);
    assert_eq!(device.waiting(), [(Operation::Write, 4096)]);
    let answered = catch_unwind(AssertUnwindSafe(|| device.answer(true)));
    assert!(answered.is_err(), "the panic is the device's to see");
    assert_eq!(device.waiting(), [(Operation::Read, 0)]);
    device.answer(true);
    assert_eq!(*ended.lock(), [0, 4096, 0]);
}
