//! Sequences of one type: short arrays of integers, and linked lists as in RFC 1813 and RFC 1833,
//! with a true boolean before each item and a false one at the end.

use super::{Decode, Decoder, Encode, Encoder, Error, Result};
use std::fmt;
use std::marker::PhantomData;

/// At most `N` unsigned integers behind their count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<const N: usize> {
    count: usize,
    /// Zeros behind the count.
    values: [u32; N],
}

impl<const N: usize> Words<N> {
    /// `None` for more than `N`.
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

impl<const N: usize> Encode for Words<N> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.count(self.count);
        for value in self.as_slice() {
            encoder.u32(*value);
        }
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

/// Appends an item behind its boolean.
#[inline]
pub fn encode_item<T: Encode>(encoder: &mut Encoder<'_>, item: &T) {
    encoder.bool(true);
    item.encode(encoder);
}

/// Appends the boolean that ends a list.
#[inline]
pub fn encode_list_end(encoder: &mut Encoder<'_>) {
    encoder.bool(false);
}

/// A list in wire form, borrowed from the record. Decoding checks every item, so that iterating
/// cannot fail. Each item has at least its boolean, so the record bounds the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List<'a, T> {
    /// Without the last boolean.
    items: &'a [u8],
    kind: PhantomData<T>,
}

impl<'a, T: Decode<'a>> List<'a, T> {
    /// An empty list.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            items: &[],
            kind: PhantomData,
        }
    }

    /// The items that [`encode_item`] wrote.
    pub fn from_items(items: &'a [u8]) -> Result<Self> {
        let mut decoder = Decoder::new(items);
        while decoder.remaining() > 0 {
            if !decoder.bool()? {
                return Err(Error::BadValue);
            }
            T::decode(&mut decoder)?;
        }
        Ok(Self {
            items,
            kind: PhantomData,
        })
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let mut decoder = Decoder::new(self.items);
        std::iter::from_fn(move || {
            // The list was checked: an error is its end.
            decoder.bool().ok()?;
            T::decode(&mut decoder).ok()
        })
    }
}

impl<T> Encode for List<'_, T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.raw(self.items);
        encode_list_end(encoder);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for List<'a, T> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        let whole = decoder.rest();
        loop {
            let length = whole.len() - decoder.remaining();
            if !decoder.bool()? {
                let items = whole.get(..length).ok_or(Error::Truncated)?;
                return Ok(Self {
                    items,
                    kind: PhantomData,
                });
            }
            T::decode(decoder)?;
        }
    }
}

impl<'a, T: Decode<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
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

    #[test]
    fn items_come_back_in_order() {
        let mut buffer = Vec::new();
        let mut encoder = Encoder::new(&mut buffer);
        for value in [7u32, 8, 9] {
            encode_item(&mut encoder, &value);
        }
        encode_list_end(&mut encoder);
        encoder.u32(42);
        let mut decoder = Decoder::new(&buffer);
        let list = List::<u32>::decode(&mut decoder).unwrap();
        assert_eq!(decoder.u32(), Ok(42));
        assert_eq!(list.iter().collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(List::from_items(&buffer[..24]), Ok(list));
        assert_eq!(List::<u32>::from_items(&buffer[..28]), Err(Error::BadValue));
    }

    #[test]
    fn a_list_without_its_end_is_truncated() {
        let bytes = [0, 0, 0, 1, 0, 0, 0, 5];
        let result = List::<u32>::decode(&mut Decoder::new(&bytes));
        assert_eq!(result, Err(Error::Truncated));
    }
}
