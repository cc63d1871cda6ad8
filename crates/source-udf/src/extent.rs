//! The data of an object: inside its entry, or in extents.

use super::fields::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Start in the data.
    pub file_offset: u64,
    pub length: u64,
    /// The block where it begins; `None` for a hole, which reads as zeros (ECMA-167 4/14.14.1.1).
    pub start: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// In the entry of the object, from this byte of the image on.
    Embedded(u64),
    Extents(Vec<Extent>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// The object's length; extents may cover more, or less if they are damaged.
    pub size: u64,
    pub body: Body,
}

impl Data {
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.body {
            Body::Embedded(_) => 0,
            Body::Extents(extents) => extents.len() * size_of::<Extent>(),
        }
    }

    pub(crate) fn is_in(&self, accepts: impl Fn(u16) -> bool) -> bool {
        match &self.body {
            Body::Embedded(_) => true,
            Body::Extents(extents) => {
                let mut places = extents.iter().filter_map(|extent| extent.start);
                places.all(|place| accepts(place.partition))
            }
        }
    }

    pub(crate) fn extents_from(&self, offset: u64) -> &[Extent] {
        let Body::Extents(extents) = &self.body else {
            return &[];
        };
        let after = extents.partition_point(|extent| extent.file_offset <= offset);
        extents.get(after.saturating_sub(1)..).unwrap_or(&[])
    }
}

#[derive(Default)]
pub(crate) struct Extents {
    list: Vec<Extent>,
    end: u64,
}

impl Extents {
    /// Appends `length` bytes, joined to the last extent where both lie together in blocks of
    /// `block_bytes`.
    pub(crate) fn push(&mut self, length: u64, start: Option<Place>, block_bytes: u64) {
        let next = |last: &Extent| match (last.start, start) {
            (None, None) => true,
            (Some(first), Some(start)) => {
                last.length.is_multiple_of(block_bytes)
                    && first.after(last.length / block_bytes) == Some(start)
            }
            _ => false,
        };
        match self.list.last_mut().filter(|last| next(last)) {
            Some(last) => last.length += length,
            None => self.list.push(Extent {
                file_offset: self.end,
                length,
                start,
            }),
        }
        self.end = self.end.saturating_add(length);
    }

    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn finish(mut self) -> Body {
        self.list.shrink_to_fit();
        Body::Extents(self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(block: u32) -> Place {
        Place {
            partition: 0,
            block,
        }
    }

    #[test]
    fn neighbours_are_joined_and_found() {
        let mut extents = Extents::default();
        for (length, start) in [
            (4096, Some(place(10))),
            (2048, Some(place(12))),
            (100, None),
            (200, None),
            (5, Some(place(13))),
            (5, Some(place(13))),
        ] {
            extents.push(length, start, 2048);
        }
        assert_eq!((extents.length(), extents.count()), (6454, 4));
        let data = Data {
            size: 6454,
            body: extents.finish(),
        };
        let starts = |offset| {
            let found = data.extents_from(offset).iter();
            found.map(|extent| extent.file_offset).collect::<Vec<_>>()
        };
        assert_eq!(starts(0), [0, 6144, 6444, 6449]);
        assert_eq!(starts(6143), [0, 6144, 6444, 6449]);
        assert_eq!(starts(6444), [6444, 6449]);
        assert_eq!(starts(u64::MAX), [6449]);
    }
}
