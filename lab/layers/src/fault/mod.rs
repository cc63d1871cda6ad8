//! A device that fails as a script says. The grammar is in `script.rs`.
//!
//! Bytes in front of a failure are transferred, as a disk does, in whole blocks; those behind it
//! are not, and the memory for them stays as it was. A stall holds the request back without
//! holding its submitter; the time is kept by one thread. All stalls end when the layer is
//! dropped or [`FaultHandle::release`] is called; the requests then go on.

mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_base::timer::{Timer, TimerHandle};
use pagewell_counters::names::PANICS;
use rustix::io::Errno;

pub use script::{Script, ScriptError};

use pagewell_device::{Device, Error, Geometry, Memory, Request};
use script::Action;

/// See the module's text.
pub struct Fault {
    inner: Arc<dyn Device>,
    handle: FaultHandle,
    /// Last owner of the thread: dropping it ends all stalls.
    _timer: Timer,
}

/// Changes what goes wrong while the device is in use.
#[derive(Clone)]
pub struct FaultHandle {
    shared: Arc<Shared>,
    timer: TimerHandle,
}

struct Shared {
    script: Mutex<Script>,
    fired: AtomicU64,
}

impl Fault {
    /// Breaks `inner` as `script` says. Starts one thread.
    pub fn new(inner: Arc<dyn Device>, script: Script) -> std::io::Result<Self> {
        let timer = Timer::new("device-fault", Duration::ZERO, || PANICS.add(1))?;
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            fired: AtomicU64::new(0),
        });
        let handle = FaultHandle {
            shared,
            timer: timer.handle(),
        };
        Ok(Self {
            inner,
            handle,
            _timer: timer,
        })
    }

    /// A way to change the script and to end stalls.
    #[must_use]
    pub fn handle(&self) -> FaultHandle {
        self.handle.clone()
    }

    /// Fails at byte `first` of the device or at the first byte of the request, whichever is
    /// later; transfers what is in front of it.
    fn fail(&self, request: Request, first: u64, errno: Errno) {
        let offset = first.max(request.offset());
        let error = Error::Failed {
            device: self.inner.name().to_owned(),
            offset,
            errno,
        };
        let block = u64::from(self.inner.geometry().logical_block_bytes.max(1));
        let intact = offset - request.offset();
        let intact = usize::try_from(intact - intact % block).unwrap_or(0);
        if intact == 0 || intact >= request.len() {
            request.fail(0, error);
            return;
        }
        let rest = request.len() - intact;
        let mut pieces = request.split(&[intact, rest]).into_iter();
        if let Some(piece) = pieces.next() {
            self.inner.submit(piece);
        }
        if let Some(piece) = pieces.next() {
            piece.fail(0, error);
        }
    }

    fn stall(&self, request: Request, time: Option<Duration>) {
        let due = time.and_then(|time| Instant::now().checked_add(time));
        let inner = self.inner.clone();
        let timer = &self.handle.timer;
        timer.at(due, move || inner.submit(request));
    }
}

impl FaultHandle {
    /// Replaces the script; counting starts again. Stalls go on.
    pub fn set_script(&self, script: Script) {
        *self.shared.script.lock() = script;
    }

    /// Ends all stalls now. Later requests may stall again.
    pub fn release(&self) {
        self.timer.release();
    }

    /// Requests held back now.
    #[must_use]
    pub fn stalled(&self) -> usize {
        self.timer.waiting()
    }

    /// How often any rule fired.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.shared.fired.load(Ordering::Relaxed)
    }
}

impl Device for Fault {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn keeps_until_flush(&self) -> bool {
        self.inner.keeps_until_flush()
    }

    fn submit(&self, request: Request) {
        let fired = self.handle.shared.script.lock().judge(&request);
        let Some(fired) = fired else {
            self.inner.submit(request);
            return;
        };
        self.handle.shared.fired.fetch_add(1, Ordering::Relaxed);
        match fired.action {
            Action::Error(errno) => self.fail(request, fired.first, errno),
            Action::Short(left) => {
                let first = request.offset().saturating_add(left);
                self.fail(request, first, Errno::IO);
            }
            Action::Stall(time) => self.stall(request, time),
        }
    }

    fn register_memory(&self, memory: &Memory) {
        self.inner.register_memory(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;
    use pagewell_device::testing::{flush, flush_request, write, write_durable};
    use pagewell_device::{Buffer, Issuer, Operation, Outcome, RamDevice, Result, read_exact};
    use std::sync::mpsc;

    fn fault(script: &str) -> (Fault, Pattern) {
        let pattern = Pattern::new(1 << 30, 3);
        let script = Script::parse(script).unwrap();
        (
            Fault::new(Arc::new(pattern.clone()), script).unwrap(),
            pattern,
        )
    }

    fn read(fault: &Fault, offset: u64, length: usize) -> mpsc::Receiver<(Outcome, Buffer)> {
        let (sender, receiver) = mpsc::channel();
        fault.submit(Request::owned(
            Operation::Read,
            offset,
            Buffer::new(length, 512),
            Issuer::Reader,
            move |outcome, buffer| drop(sender.send((outcome, buffer))),
        ));
        receiver
    }

    fn failed(fault: &Fault, offset: u64, errno: Errno) -> Result<()> {
        let device = fault.name().to_owned();
        Err(Error::Failed {
            device,
            offset,
            errno,
        })
    }

    #[test]
    fn an_error_names_the_byte_and_what_is_before_it_is_there() {
        let (fault, pattern) = fault("read 4096..8192 error ENODATA");
        let (outcome, buffer) = read(&fault, 1024, 16_384).recv().unwrap();
        assert_eq!(outcome.transferred_bytes, 3072);
        assert_eq!(outcome.result, failed(&fault, 4096, Errno::NODATA));
        assert_eq!(pattern.check(1024, &buffer[..3072]), Ok(()));
        assert!(buffer[3072..].iter().all(|byte| *byte == 0));
        let (outcome, _) = read(&fault, 6000, 512).recv().unwrap();
        assert_eq!(outcome.transferred_bytes, 0);
        assert_eq!(outcome.result, failed(&fault, 6000, Errno::NODATA));
        let (outcome, buffer) = read(&fault, 8192, 512).recv().unwrap();
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(pattern.check(8192, &buffer), Ok(()));
        assert_eq!(fault.handle().fired(), 2);
        let text = read_exact(&fault, 4000, &mut [0; 200])
            .unwrap_err()
            .to_string();
        assert!(text.contains("pattern:") && text.contains("4096"), "{text}");
    }

    #[test]
    fn writes_and_flushes_fail_as_reads_do() {
        let ram = Arc::new(RamDevice::new("ram", 1 << 20));
        let script = "write 4096.. error ENOSPC\nflush * error EIO after 1 once\n\
                      any * error ENODEV after 4";
        let script = Script::parse(script).unwrap();
        let fault = Fault::new(ram.clone(), script).unwrap();
        let outcome = write_durable(&fault, 2048, &[1; 4096]);
        assert_eq!(outcome.transferred_bytes, 2048);
        assert_eq!(outcome.result, failed(&fault, 4096, Errno::NOSPC));
        let mut there = [0; 4096];
        read_exact(&*ram, 2048, &mut there).unwrap();
        assert_eq!((there[2047], there[2048]), (1, 0));
        let results: Vec<_> = (0..3).map(|_| flush(&fault).result).collect();
        assert_eq!(results, [Ok(()), failed(&fault, 0, Errno::IO), Ok(())]);
        assert_eq!(write(&fault, 0, &[2; 512]).result, Ok(()));
        assert_eq!(flush(&fault).result, Ok(()));
        // Gone, for everybody.
        assert_eq!(flush(&fault).result, failed(&fault, 0, Errno::NODEV));
        let outcome = write(&fault, 512, &[2; 512]);
        assert_eq!(outcome.result, failed(&fault, 512, Errno::NODEV));
        let outcome = read(&fault, 0, 512).recv().unwrap().0;
        assert_eq!(outcome.result, failed(&fault, 0, Errno::NODEV));
    }

    #[test]
    fn a_stalled_flush_goes_on_when_released() {
        let script = Script::parse("flush * stall forever once").unwrap();
        let fault = Fault::new(Arc::new(RamDevice::new("ram", 4096)), script).unwrap();
        let (stalled, outcome) = flush_request();
        fault.submit(stalled);
        assert_eq!(flush(&fault).result, Ok(()));
        assert!(outcome.try_recv().is_err());
        assert_eq!(fault.handle().stalled(), 1);
        fault.handle().release();
        assert_eq!(outcome.recv().unwrap().result, Ok(()));
    }

    #[test]
    fn a_short_transfer_has_its_first_bytes() {
        let (fault, pattern) = fault("read * short 512 after 1 once");
        for (expected, left) in [(4096, 0), (512, 512), (4096, 0)] {
            let (outcome, buffer) = read(&fault, 8192, 4096).recv().unwrap();
            assert_eq!(outcome.transferred_bytes, expected);
            assert_eq!(pattern.check(8192, &buffer[..expected]), Ok(()));
            if left > 0 {
                assert_eq!(outcome.result, failed(&fault, 8192 + left, Errno::IO));
            }
        }
    }

    #[test]
    fn a_stall_holds_nobody_else_and_ends_when_released() {
        let (fault, pattern) = fault("read ..4096 stall forever\nread 4096..8192 stall 2ms");
        let start = Instant::now();
        let forever = read(&fault, 0, 512);
        let later = read(&fault, 4096, 512);
        assert_eq!(read(&fault, 8192, 512).recv().unwrap().0.result, Ok(()));
        assert_eq!(later.recv().unwrap().0.result, Ok(()));
        assert!(start.elapsed() >= Duration::from_millis(2));
        assert!(forever.try_recv().is_err());
        assert_eq!(fault.handle().stalled(), 1);
        fault.handle().release();
        let (outcome, buffer) = forever.recv().unwrap();
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(pattern.check(0, &buffer), Ok(()));
        let again = read(&fault, 0, 512);
        drop(fault);
        assert_eq!(again.try_recv().unwrap().0.result, Ok(()));
    }

    #[test]
    fn the_script_changes_at_run_time() {
        let (fault, _) = fault("");
        let handle = fault.handle();
        assert_eq!(read(&fault, 0, 512).recv().unwrap().0.result, Ok(()));
        handle.set_script(Script::parse("any * error EIO").unwrap());
        let (outcome, _) = read(&fault, 0, 512).recv().unwrap();
        assert_eq!(outcome.result, failed(&fault, 0, Errno::IO));
        handle.set_script(Script::default());
        assert_eq!(read(&fault, 0, 512).recv().unwrap().0.result, Ok(()));
    }
}
