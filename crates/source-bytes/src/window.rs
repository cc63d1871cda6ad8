//! The last bytes read, so that neighbouring small reads make one request.

use pagewell_fs::{Error, Result};

use crate::Bytes;

/// See the module.
pub struct Window<'a> {
    bytes: &'a Bytes,
    may_block: bool,
    step_bytes: usize,
    start: u64,
    held: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Reads at least `step_bytes` at once, where there are so many.
    #[must_use]
    pub fn new(bytes: &'a Bytes, may_block: bool, step_bytes: usize) -> Self {
        Self {
            bytes,
            may_block,
            step_bytes,
            start: 0,
            held: Vec::new(),
        }
    }

    /// Changes how many bytes it reads at once.
    pub fn set_step(&mut self, step_bytes: usize) {
        self.step_bytes = step_bytes;
    }

    /// Whether a whole range is in the image.
    #[must_use]
    pub fn contains(&self, position: u64, length: u64) -> bool {
        self.bytes.contains(position, length)
    }

    /// Fails past the end of the image.
    pub fn get(&mut self, position: u64, length: usize) -> Result<&[u8]> {
        if !self.bytes.contains(position, length as u64) {
            return Err(self.bytes.fault(position, "past the end of the image"));
        }
        if !self.holds(position, length) {
            let rest = self.bytes.length_bytes() - position;
            let wanted = usize::try_from(rest).unwrap_or(usize::MAX);
            let wanted = wanted.min(self.step_bytes.max(length));
            match self.fill(position, wanted) {
                // The unreadable byte may be behind what is needed.
                Err(Error::Io(_)) if wanted > length => self.fill(position, length)?,
                other => other?,
            }
        }
        let from = usize::try_from(position - self.start).unwrap_or(usize::MAX);
        let held = self.held.get(from..).and_then(|rest| rest.get(..length));
        held.ok_or_else(|| self.bytes.fault(position, "window does not hold the bytes"))
    }

    fn fill(&mut self, position: u64, length: usize) -> Result<()> {
        self.held.clear();
        self.held.resize(length, 0);
        self.start = position;
        let read = self.bytes.read(position, &mut self.held, self.may_block);
        read.inspect_err(|_| self.held.clear())
    }

    fn holds(&self, position: u64, length: usize) -> bool {
        position >= self.start
            && position + length as u64 <= self.start + self.held.len() as u64
            && !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_give_every_byte_of_the_image_and_no_more() {
        let bytes = Bytes::of_memory((0..100).collect());
        let mut window = Window::new(&bytes, true, 16);
        for position in [0u64, 5, 15, 16, 90, 3, 99] {
            assert_eq!(u64::from(window.get(position, 1).unwrap()[0]), position);
        }
        window.set_step(8);
        assert_eq!(window.get(60, 40).unwrap().len(), 40);
        assert!(matches!(window.get(60, 41), Err(Error::Io(_))));
        assert!(matches!(window.get(u64::MAX, 2), Err(Error::Io(_))));
    }
}
