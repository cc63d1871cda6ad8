//! Threads that decompress, and the device whose requests they answer.
//!
//! Decompression takes a processor and waits for the compressed bytes: no work for threads that
//! submit or complete requests. Several threads work on the pieces of a request side by side:
//!
//! ```text
//!  submit ──> pieces ──> queue ──> thread: wait for compressed bytes, decompress ──> complete
//!                          └─────> thread: the next piece whose turn is free
//! ```
//!
//! A stream can only be read forwards: two pieces of the same turn never run at once. A thread that
//! finds no piece whose turn is free ends; the one with that turn looks again after its piece.
//!
//! A decoder that panics costs its piece.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_device::{
    Device, Error, Geometry, Issuer, Outcome, Request, Result, Workers, complete,
    completion_panicked,
};
use rustix::io::Errno;

use crate::fetch::Scatter;
use crate::window::{copying, readable};

/// All parts that a device keeps: more than what is read ahead of one reader.
pub(crate) const KEPT_BYTES_MAX: usize = 4 << 20;
/// More gain little: a request has at most eight pieces, the device below its own limit.
const THREADS_MAX: usize = 4;

/// Bytes that are computed piece by piece from those of a device below.
pub(crate) trait Decode: Send + Sync + 'static {
    fn below(&self) -> &Arc<dyn Device>;

    /// Of all that can be read.
    fn length_bytes(&self) -> u64;

    /// The end of the piece with this byte.
    fn piece_end(&self, offset: u64) -> u64;

    /// Pieces of one turn never run at once.
    fn turn(&self, offset: u64) -> Option<usize>;

    /// Threads that may work at once, for their memory.
    fn width(&self) -> usize;

    /// Fills the target, part of one piece; how many bytes, from the first.
    fn read(&self, offset: u64, target: &mut [u8], issuer: Issuer) -> (usize, Result<()>);
}

/// See the module's text. Dropping it waits for its requests.
pub(crate) struct Decoded<D: Decode> {
    shared: Arc<Shared<D>>,
    workers: Workers,
}

struct Shared<D> {
    decode: D,
    pieces: Mutex<Pieces>,
}

#[derive(Default)]
struct Pieces {
    queue: VecDeque<(Option<usize>, Request)>,
    taken: Vec<usize>,
}

impl Pieces {
    /// Takes the first piece whose turn is free.
    fn next(&mut self) -> Option<(Option<usize>, Request)> {
        let is_free = |(turn, _): &(Option<usize>, Request)| {
            turn.is_none_or(|turn| !self.taken.contains(&turn))
        };
        let index = self.queue.iter().position(is_free)?;
        let (turn, request) = self.queue.remove(index)?;
        self.taken.extend(turn);
        Some((turn, request))
    }
}

impl<D: Decode> Decoded<D> {
    pub(crate) fn new(decode: D) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads_max = processors.min(THREADS_MAX).min(decode.width()).max(1);
        Self {
            shared: Arc::new(Shared {
                decode,
                pieces: Mutex::default(),
            }),
            workers: Workers::new("pagewell-unpack", threads_max),
        }
    }

    fn queue(&self, pieces: Vec<(Option<usize>, Request)>) {
        let count = pieces.len();
        self.shared.pieces.lock().queue.extend(pieces);
        for _ in 0..count {
            let shared = self.shared.clone();
            if let Err(work) = self.workers.run(move || shared.work_off()) {
                work();
            }
        }
    }
}

impl<D: Decode> Shared<D> {
    fn work_off(&self) {
        loop {
            let next = self.pieces.lock().next();
            let Some((turn, request)) = next else {
                return;
            };
            self.answer(request);
            if turn.is_some() {
                let mut pieces = self.pieces.lock();
                pieces.taken.retain(|taken| Some(*taken) != turn);
            }
        }
    }

    fn answer(&self, mut request: Request) {
        let (offset, length) = (request.offset(), request.len());
        let mut bytes = vec![0; length];
        let read = || self.decode.read(offset, &mut bytes, request.issuer());
        let (filled, result) = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
            completion_panicked();
            let name = self.decode.below().name();
            (0, Err(Error::failed(name, offset, Errno::IO)))
        });
        let filled = filled.min(length);
        Scatter::new(request.slices_mut()).put(bytes.get(..filled).unwrap_or_default());
        let abandoned = Error::Abandoned { offset };
        let result = match filled == length {
            true => Ok(()),
            false => Err(result.err().unwrap_or(abandoned)),
        };
        let outcome = Outcome {
            transferred_bytes: filled,
            result,
        };
        complete(request, outcome);
    }
}

impl<D: Decode> Device for Decoded<D> {
    fn name(&self) -> &str {
        self.shared.decode.below().name()
    }

    fn length_bytes(&self) -> u64 {
        self.shared.decode.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        copying(self.shared.decode.below().geometry())
    }

    fn submit(&self, request: Request) {
        let Some(request) = readable(self, request) else {
            return;
        };
        let decode = &self.shared.decode;
        let end = request.offset() + request.len() as u64;
        let mut lengths = Vec::new();
        let mut offset = request.offset();
        while offset < end {
            // At least a byte, so that this ends.
            let next = decode.piece_end(offset).clamp(offset + 1, end);
            lengths.push((next - offset) as usize);
            offset = next;
        }
        let pieces = request.split(&lengths).into_iter();
        let with_turn = |piece: Request| (decode.turn(piece.offset()), piece);
        self.queue(pieces.map(with_turn).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::RamDevice;
    use pagewell_device::testing::{flush, pattern, read, write};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Bytes in memory, in pieces of 1000 and turns of 3000.
    struct Plain {
        below: Arc<dyn Device>,
        bytes: Vec<u8>,
        running: [AtomicUsize; 4],
    }

    impl Decode for Plain {
        fn below(&self) -> &Arc<dyn Device> {
            &self.below
        }

        fn length_bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn piece_end(&self, offset: u64) -> u64 {
            (offset + 1).next_multiple_of(1000)
        }

        fn turn(&self, offset: u64) -> Option<usize> {
            Some((offset / 3000) as usize)
        }

        fn width(&self) -> usize {
            3
        }

        fn read(&self, offset: u64, target: &mut [u8], _: Issuer) -> (usize, Result<()>) {
            let turn = self.turn(offset).unwrap();
            assert_eq!(self.running[turn].fetch_add(1, Ordering::SeqCst), 0);
            let start = usize::try_from(offset).unwrap();
            target.copy_from_slice(&self.bytes[start..start + target.len()]);
            std::thread::yield_now();
            self.running[turn].fetch_sub(1, Ordering::SeqCst);
            assert!(!(8000..8500).contains(&offset), "a decoder that panics");
            if (9000..9500).contains(&offset) {
                return (100, Err(Error::failed("x", offset + 100, Errno::IO)));
            }
            (target.len(), Ok(()))
        }
    }

    fn device() -> (Vec<u8>, Arc<Decoded<Plain>>) {
        let bytes = pattern(10_000);
        let plain = Plain {
            below: Arc::new(RamDevice::new("below", 0)),
            bytes: bytes.clone(),
            running: Default::default(),
        };
        (bytes, Arc::new(Decoded::new(plain)))
    }

    #[test]
    fn requests_are_answered_and_turns_kept() {
        let (bytes, device) = device();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (bytes, device) = (&bytes, &device);
                scope.spawn(move || {
                    for number in 0..100 {
                        let offset = (number * 977 + thread * 131) % 6000;
                        let length = (number * 37) % 2000;
                        let (outcome, buffer) = read(&**device, offset as u64, length);
                        assert_eq!(outcome.result, Ok(()));
                        assert!(buffer[..] == bytes[offset..offset + length]);
                    }
                });
            }
        });
        assert!(read(&*device, 9999, 2).0.result.is_err());
        assert!(write(&*device, 0, b"x").result.is_err());
        assert_eq!(flush(&*device).result, Ok(()));
    }

    #[test]
    fn errors_and_panics_cost_their_piece() {
        let (bytes, device) = device();
        let (outcome, buffer) = read(&*device, 7500, 2500);
        assert_eq!(outcome.transferred_bytes, 500);
        assert!(buffer[..500] == bytes[7500..8000]);
        let (outcome, _) = read(&*device, 9000, 1000);
        assert_eq!(outcome.transferred_bytes, 100);
        assert_eq!(outcome.result, Err(Error::failed("x", 9100, Errno::IO)));
        assert_eq!(read(&*device, 8500, 500).0.result, Ok(()), "it goes on");
    }

    #[test]
    fn the_last_completion_may_drop_it() {
        let (_, device) = device();
        let (sender, receiver) = std::sync::mpsc::channel();
        let own = device.clone();
        let buffer = pagewell_device::Buffer::new(10, 1);
        let done = move |_, _| {
            drop(own);
            let _ = sender.send(());
        };
        let operation = pagewell_device::Operation::Read;
        let request = Request::owned(operation, 0, buffer, Issuer::Reader, done);
        let weak = Arc::downgrade(&device);
        device.submit(request);
        drop(device);
        receiver.recv().unwrap();
        assert!(weak.upgrade().is_none());
    }
}
