//! Short arrays of integers, held inline.

use super::{Decode, Decoder, Encode, Encoder, Error, Result};
use std::fmt;

/// At most `N` unsigned integers: a count, then the integers. Needs no memory of its own.
#[derive(Clone, Copy)]
pub struct Words<const N: usize> {
    count: usize,
    values: [u32; N],
}

impl<const N: usize> Words<N> {
    /// These values; `None` when they are more than `N`.
    #[inline]
    #[must_use]
    pub fn new(values: &[u32]) -> Option<Self> {
        let mut held = [0; N];
        held.get_mut(..values.len())?.copy_from_slice(values);
        Some(Self {
            count: values.len(),
            values: held,
        })
    }

    /// The values.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        self.values.get(..self.count).unwrap_or(&self.values)
    }
}

impl<const N: usize> Default for Words<N> {
    #[inline]
    fn default() -> Self {
        Self {
            count: 0,
            values: [0; N],
        }
    }
}

impl<const N: usize> PartialEq for Words<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<const N: usize> Eq for Words<N> {}

impl<const N: usize> fmt::Debug for Words<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(formatter)
    }
}

impl<const N: usize> Encode for Words<N> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.reserve(self.encoded_size());
        #[allow(clippy::cast_possible_truncation)] // at most N, which is small
        encoder.u32(self.count as u32);
        for value in self.as_slice() {
            encoder.u32(*value);
        }
    }

    fn encoded_size(&self) -> usize {
        4 + 4 * self.count
    }
}

impl<'a, const N: usize> Decode<'a> for Words<N> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        let count = decoder.u32()? as usize;
        let mut values = [0; N];
        for value in values.get_mut(..count).ok_or(Error::TooLong)? {
            *value = decoder.u32()?;
        }
        Ok(Self { count, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_fit_are_refused() {
        assert_eq!(Words::<2>::new(&[1, 2]).unwrap().as_slice(), [1, 2]);
        assert_eq!(Words::<2>::new(&[1, 2, 3]), None);
        let bytes = [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let result = Words::<2>::decode(&mut Decoder::new(&bytes));
        assert_eq!(result, Err(Error::TooLong));
        assert!(Words::<3>::decode(&mut Decoder::new(&bytes)).is_ok());
    }
}
