//! The compressed bytes of a part of a device, to be read forwards.

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::{Arc, mpsc};

use pagewell_base::sync::Mutex;
use pagewell_device::{Device, Error, Issuer};

use crate::bytes;
use crate::fetch::fetch;

/// Asked for at once: enough for a disk, and for a server that is near.
const STEP_BYTES: usize = 256 << 10;

/// Why a source failed: decoders keep no errors.
pub(crate) type Failure = Arc<Mutex<Option<Error>>>;

/// See the module's text. A clone goes on by itself.
#[derive(Clone)]
pub(crate) struct Source {
    device: Arc<dyn Device>,
    issuer: Issuer,
    /// Of the first byte that was not asked for, and the end.
    next: u64,
    end: u64,
    step_bytes: usize,
    step: Vec<u8>,
    taken: usize,
    failure: Failure,
}

impl Source {
    /// The bytes from `start` to `end`, or to the end of the device.
    pub(crate) fn new(device: &Arc<dyn Device>, start: u64, end: u64, issuer: Issuer) -> Self {
        Self {
            device: device.clone(),
            issuer,
            next: start,
            end: end.min(device.length_bytes()),
            step_bytes: STEP_BYTES,
            step: Vec::new(),
            taken: 0,
            failure: Failure::default(),
        }
    }

    pub(crate) fn with_steps(self, step_bytes: usize) -> Self {
        Self { step_bytes, ..self }
    }

    pub(crate) fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Of the next byte that it gives.
    pub(crate) fn position(&self) -> u64 {
        self.next - (self.step.len() - self.taken) as u64
    }

    pub(crate) fn go_to(&mut self, position: u64) {
        let first = self.next - self.step.len() as u64;
        let inside = position.checked_sub(first).map(usize::try_from);
        match inside {
            Some(Ok(inside)) if inside <= self.step.len() => self.taken = inside,
            _ => {
                self.step.clear();
                self.taken = 0;
                self.next = position;
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let rest = self.end.saturating_sub(self.next);
        let length =
            usize::try_from(rest).map_or(self.step_bytes, |rest| rest.min(self.step_bytes));
        self.step.clear();
        self.taken = 0;
        if length == 0 {
            return Ok(());
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = move |bytes: &[u8], result| drop(sender.send((bytes.to_vec(), result)));
        fetch(&*self.device, self.issuer, (self.next, length), done);
        let abandoned = || Error::Abandoned { offset: self.next };
        let (bytes, result) = receiver
            .recv()
            .unwrap_or_else(|_| (Vec::new(), Err(abandoned())));
        // What came before an error is used first.
        if let Err(error) = result
            && bytes.is_empty()
        {
            *self.failure.lock() = Some(error.clone());
            return Err(io::Error::other(error));
        }
        self.next += bytes.len() as u64;
        self.step = bytes;
        Ok(())
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.step.len() {
            self.fill()?;
        }
        Ok(self.step.get(self.taken..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.step.len());
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, change) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(change) => (self.position(), change),
            SeekFrom::End(change) => (self.end, change),
        };
        let position = from.checked_add_signed(change);
        let position = position.ok_or(io::ErrorKind::InvalidInput)?;
        self.go_to(position);
        Ok(position)
    }
}

impl Read for Source {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = bytes::copy(self.fill_buf()?, target);
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::testing::{Faulty, pattern};
    use pagewell_device::{Operation, RamDevice};

    #[test]
    fn bytes_come_in_order_up_to_an_error() {
        let bytes = pattern(600_000);
        let mut faulty = Faulty::new("below", 600_000);
        faulty.ram = RamDevice::holding("below", &bytes);
        *faulty.bad.lock().unwrap() = vec![(Operation::Read, 500_000..500_001)];
        let device: Arc<dyn Device> = Arc::new(faulty);
        let mut source = Source::new(&device, 100, u64::MAX, Issuer::Reader);
        let mut read = Vec::new();
        assert!(source.read_to_end(&mut read).is_err());
        assert!(read == bytes[100..500_000]);
        assert!(matches!(
            *source.failure().lock(),
            Some(Error::Failed { .. })
        ));
        source.go_to(500_001);
        read.clear();
        source.read_to_end(&mut read).unwrap();
        assert!(read == bytes[500_001..]);
        source.go_to(599_999);
        assert_eq!(source.position(), 599_999);
        assert_eq!(source.read(&mut [0; 5]).unwrap(), 1);
    }
}
