//! A track of an image: where it is and how its sectors are stored.

use std::sync::Arc;

use pagewell_device::Device;

use crate::sector::Layout;
use crate::sectors::Sectors;
use crate::window::Window;
use crate::{Result, bytes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    /// First byte of its first sector.
    pub start: u64,
    /// Bytes at most; the device may end before.
    pub length_bytes: u64,
    pub layout: Layout,
}

/// A track as a table lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub number: usize,
    /// Whether it is of data that can be read.
    pub is_data: bool,
    /// Of the table; `None` where no file has its sectors as they are.
    pub file: Option<usize>,
    /// Where it is in that file.
    pub track: Track,
    /// Its first sector on the disc, where the table has that.
    pub sector: Option<u64>,
    /// Sectors of no track before it, for tables without `sector`.
    pub gap_sectors: u64,
}

impl Listed {
    /// Makes the first sectors in its file a gap.
    pub(crate) fn leave_out(&mut self, sectors: u64) {
        let Track {
            start,
            length_bytes,
            layout,
        } = &mut self.track;
        let bytes = sectors.saturating_mul(layout.stride_bytes());
        *start = start.saturating_add(bytes);
        if *length_bytes != u64::MAX {
            *length_bytes = length_bytes.saturating_sub(bytes);
        }
        self.gap_sectors = self.gap_sectors.saturating_add(sectors);
    }
}

impl Track {
    /// Its user data, and its sectors in words.
    pub(crate) fn open(self, inner: &Arc<dyn Device>) -> Result<(Arc<dyn Device>, String)> {
        let middle = self.layout.stride_bytes() * crate::volume::FIRST_SECTOR;
        let at = self.start.saturating_add(middle);
        let needed = self.layout.needed_bytes();
        let sector = bytes::read(&**inner, at, needed)?.unwrap_or_default();
        let words = self.layout.describe(&sector);
        let inner = inner.clone();
        let device: Arc<dyn Device> = match self.layout {
            Layout::COOKED => Arc::new(Window::new(inner, self.start, self.length_bytes)),
            layout => Arc::new(Sectors::new(inner, self.start, self.length_bytes, layout)),
        };
        Ok((device, words))
    }

    /// Their number, in a file of so many bytes if that is known.
    pub(crate) fn sectors(self, file_bytes: Option<u64>) -> Option<u64> {
        let there = file_bytes.map(|bytes| bytes.saturating_sub(self.start));
        let bytes = match self.length_bytes {
            u64::MAX => there?,
            length => length.min(there.unwrap_or(length)),
        };
        bytes.checked_div(self.layout.stride_bytes())
    }
}
