//! Linked lists as RFC 1813 and RFC 1833 write them: before each item a boolean that is true,
//! after the last one a boolean that is false.

use super::{Decode, Decoder, Encode, Encoder, Error, Result};
use std::fmt;
use std::marker::PhantomData;

/// Bytes of the boolean before an item, or after the last one.
pub const ITEM_MARK_SIZE: usize = 4;

/// Appends one item with the boolean before it.
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

/// A list still in its wire form, borrowed from the record.
///
/// Decoding walks the list once, so that every item is known to be well formed; iterating walks
/// it again and cannot fail. Nothing is allocated however long the list is, and the walk is
/// bounded by the record, of which each item takes at least the four bytes of its boolean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List<'a, T> {
    /// Items with their booleans, without the last one.
    items: &'a [u8],
    kind: PhantomData<T>,
}

impl<'a, T: Decode<'a>> List<'a, T> {
    /// The list without items.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            items: &[],
            kind: PhantomData,
        }
    }

    /// The list of these items, as [`encode_item`] wrote them one after the other.
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
    #[must_use]
    pub const fn iter(&self) -> ListItems<'a, T> {
        ListItems {
            decoder: Decoder::new(self.items),
            kind: PhantomData,
        }
    }

    /// Whether there are no items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T> Encode for List<'_, T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.raw(self.items);
        encode_list_end(encoder);
    }

    fn encoded_size(&self) -> usize {
        self.items.len() + ITEM_MARK_SIZE
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

impl<'a, T: Decode<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListItems<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Decode<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// The items of a [`List`], in order.
#[derive(Clone, Debug)]
pub struct ListItems<'a, T> {
    decoder: Decoder<'a>,
    kind: PhantomData<T>,
}

impl<'a, T: Decode<'a>> Iterator for ListItems<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        // The list was walked when it was made: an error here can only mean its end.
        self.decoder.bool().ok()?;
        T::decode(&mut self.decoder).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(list.encoded_size(), 28);
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
