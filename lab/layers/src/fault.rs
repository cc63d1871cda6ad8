//! A device that fails by rules.
//!
//! Whole blocks in front of a failure are transferred, as by a disk; memory behind them stays as it
//! was. A stall holds a request back but not its submitter; it ends when the layer is dropped or
//! [`FaultHandle::release`] is called, and the request goes on.
//!
//! Each rule counts the requests that touch its range. The first rule that fires decides; the rules
//! behind it do not count the request.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::sync::Mutex;
use pagewell_base::timer::{Timer, TimerHandle};
use pagewell_counters::names::PANICS;
use pagewell_device::{Device, Error, Operation, Request};
use rustix::io::Errno;

use crate::forward::submit_part;
use crate::forward_device;

const ALL: Range<u64> = 0..u64::MAX;

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub struct Rule {
    /// None: every request.
    operation: Option<Operation>,
    range: Range<u64>,
    /// None: the request is held back.
    error: Option<Errno>,
    after: u64,
    times: u64,
    seen: u64,
    fired: u64,
}

impl Rule {
    /// Requests fail, at the first byte of the range.
    pub const fn error(errno: Errno) -> Self {
        Self {
            operation: None,
            range: ALL,
            error: Some(errno),
            after: 0,
            times: u64::MAX,
            seen: 0,
            fired: 0,
        }
    }

    /// Requests are held back until they are released.
    pub const fn stall() -> Self {
        let error = None;
        Self {
            error,
            ..Self::error(Errno::IO)
        }
    }

    /// Only requests of one kind.
    #[must_use]
    pub const fn of(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only requests that touch these bytes; no flushes.
    #[must_use]
    pub fn within(mut self, range: Range<u64>) -> Self {
        self.range = range;
        self
    }

    /// Not the first so many.
    #[must_use]
    pub const fn after(mut self, count: u64) -> Self {
        self.after = count;
        self
    }

    /// Then never again.
    #[must_use]
    pub const fn once(mut self) -> Self {
        self.times = 1;
        self
    }

    fn fires(&mut self, request: &Request) -> bool {
        let first = request.offset();
        let end = first.saturating_add(request.len() as u64);
        let touches = match request.operation() {
            Operation::Flush => self.range == ALL,
            Operation::Read | Operation::Write => first < self.range.end && self.range.start < end,
        };
        let is_other = self.operation.is_some_and(|it| it != request.operation());
        if !touches || is_other || self.fired >= self.times {
            return false;
        }
        self.seen += 1;
        let fires = self.seen > self.after;
        self.fired += u64::from(fires);
        fires
    }
}

/// See the module's text.
pub struct Fault {
    inner: Arc<dyn Device>,
    handle: FaultHandle,
    /// The last owner of the thread: dropping it ends all stalls.
    _timer: Timer,
}

/// Changes the rules while the device is in use.
#[derive(Clone)]
pub struct FaultHandle {
    rules: Arc<Mutex<Vec<Rule>>>,
    timer: TimerHandle,
}

impl Fault {
    /// Breaks `inner` by these rules. Starts one thread.
    pub fn new(
        inner: Arc<dyn Device>,
        rules: impl IntoIterator<Item = Rule>,
    ) -> std::io::Result<Self> {
        let timer = Timer::new("device-fault", Duration::ZERO, || PANICS.add(1))?;
        let handle = FaultHandle {
            rules: Arc::new(Mutex::new(rules.into_iter().collect())),
            timer: timer.handle(),
        };
        Ok(Self {
            inner,
            handle,
            _timer: timer,
        })
    }

    /// Changes the rules and ends stalls.
    pub fn handle(&self) -> FaultHandle {
        self.handle.clone()
    }

    /// Fails at byte `first` of the device or of the request, whichever is later; transfers what is
    /// in front.
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
        submit_part(&*self.inner, request, intact, error);
    }
}

impl FaultHandle {
    /// Replaces the rules; counting starts again. Stalls go on.
    pub fn set_rules(&self, rules: impl IntoIterator<Item = Rule>) {
        *self.rules.lock() = rules.into_iter().collect();
    }

    /// Ends all stalls now. Later requests may stall again.
    pub fn release(&self) {
        self.timer.release();
    }

    /// Requests that are held back now.
    pub fn stalled(&self) -> usize {
        self.timer.waiting()
    }
}

impl Device for Fault {
    forward_device! { self => self.inner;
        name, length_bytes, geometry, keeps_until_flush, register_memory,
    }

    fn submit(&self, request: Request) {
        let mut rules = self.handle.rules.lock();
        let fired = rules.iter_mut().find_map(|rule| {
            let fires = rule.fires(&request);
            fires.then_some((rule.error, rule.range.start))
        });
        drop(rules);
        let Some((error, first)) = fired else {
            return self.inner.submit(request);
        };
        match error {
            Some(errno) => self.fail(request, first, errno),
            None => {
                let inner = self.inner.clone();
                let timer = &self.handle.timer;
                timer.at(None, move || inner.submit(request));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;
    use pagewell_device::testing::{flush, flush_request, write, write_durable};
    use pagewell_device::{Buffer, Issuer, Outcome, RamDevice, Result, read_exact};
    use std::sync::mpsc;

    const EIO: Rule = Rule::error(Errno::IO);

    fn fault(rules: impl IntoIterator<Item = Rule>) -> (Fault, Pattern) {
        let pattern = Pattern::new(1 << 30, 3);
        let fault = Fault::new(Arc::new(pattern.clone()), rules);
        (fault.unwrap(), pattern)
    }

    fn read_request(offset: u64, length: usize) -> Request {
        let buffer = Buffer::new(length, 1);
        Request::owned(Operation::Read, offset, buffer, Issuer::Reader, |_, _| {})
    }

    /// Which of 6 equal reads fire.
    fn fires(mut rule: Rule) -> Vec<usize> {
        let fires = |_: &usize| rule.fires(&read_request(0, 4096));
        (1..=6).filter(fires).collect()
    }

    #[test]
    fn conditions_say_when() {
        assert_eq!(fires(EIO), [1, 2, 3, 4, 5, 6]);
        assert_eq!(fires(EIO.once()), [1]);
        assert_eq!(fires(EIO.after(4)), [5, 6]);
        assert_eq!(fires(EIO.after(2).once()), [3]);
        assert_eq!(fires(EIO.of(Operation::Read).once()), [1]);
        assert_eq!(fires(EIO.of(Operation::Write)), [0; 0]);
        assert_eq!(fires(EIO.of(Operation::Flush)), [0; 0]);
    }

    #[test]
    fn ranges_say_where() {
        for (range, touched) in [
            (ALL, [true; 5]),
            (4096..8192, [false, true, true, true, false]),
            (8192..u64::MAX, [false, false, false, true, true]),
            (0..1, [true, true, false, false, false]),
        ] {
            let requests = [(0, 4096), (0, 4097), (5000, 1), (8191, 2), (8192, 1)];
            let fires = requests.map(|(offset, length)| {
                let mut rule = EIO.within(range.clone());
                rule.fires(&read_request(offset, length))
            });
            assert_eq!(fires, touched, "{range:?}");
            let flush = Request::flush(Issuer::Flusher, |_| ());
            let is_all = range == ALL;
            assert_eq!(EIO.within(range).fires(&flush), is_all);
        }
    }

    #[test]
    fn the_first_rule_that_fires_decides() {
        let rules = [
            Rule::error(Errno::ROFS).of(Operation::Write),
            Rule::stall().once(),
            Rule::error(Errno::NODATA).within(1024..u64::MAX),
        ];
        let (fault, _) = fault(rules);
        assert_eq!(
            write(&fault, 0, &[1; 512]).result,
            failed(&fault, 0, Errno::ROFS)
        );
        let stalled = read(&fault, 1024, 512);
        let (outcome, _) = read(&fault, 0, 4096).recv().unwrap();
        assert_eq!(outcome.result, failed(&fault, 1024, Errno::NODATA));
        assert!(stalled.try_recv().is_err());
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
        let (fault, pattern) = fault([Rule::error(Errno::NODATA).within(4096..8192)]);
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
        let text = read_exact(&fault, 4000, &mut [0; 200])
            .unwrap_err()
            .to_string();
        assert!(text.contains("pattern:") && text.contains("4096"), "{text}");
    }

    #[test]
    fn writes_and_flushes_fail_as_reads_do() {
        let ram = Arc::new(RamDevice::new("ram", 1 << 20));
        let rules = [
            Rule::error(Errno::NOSPC)
                .of(Operation::Write)
                .within(4096..u64::MAX),
            EIO.of(Operation::Flush).after(1).once(),
            Rule::error(Errno::NODEV).after(4),
        ];
        let fault = Fault::new(ram.clone(), rules).unwrap();
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
        let rule = Rule::stall().of(Operation::Flush).once();
        let fault = Fault::new(Arc::new(RamDevice::new("ram", 4096)), [rule]).unwrap();
        let (stalled, outcome) = flush_request();
        fault.submit(stalled);
        assert_eq!(flush(&fault).result, Ok(()));
        assert!(outcome.try_recv().is_err());
        assert_eq!(fault.handle().stalled(), 1);
        fault.handle().release();
        assert_eq!(outcome.recv().unwrap().result, Ok(()));
    }

    #[test]
    fn a_stall_holds_nobody_else_and_ends_when_released() {
        let (fault, pattern) = fault([Rule::stall().within(0..4096)]);
        let forever = read(&fault, 0, 512);
        assert_eq!(read(&fault, 8192, 512).recv().unwrap().0.result, Ok(()));
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
    fn the_rules_change_at_run_time() {
        let (fault, _) = fault([]);
        let handle = fault.handle();
        assert_eq!(read(&fault, 0, 512).recv().unwrap().0.result, Ok(()));
        handle.set_rules([EIO]);
        let (outcome, _) = read(&fault, 0, 512).recv().unwrap();
        assert_eq!(outcome.result, failed(&fault, 0, Errno::IO));
        handle.set_rules([]);
        assert_eq!(read(&fault, 0, 512).recv().unwrap().0.result, Ok(()));
    }
}
