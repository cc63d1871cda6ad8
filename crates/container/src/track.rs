//! A data track of an image: where it is and how its sectors are stored.

use std::sync::Arc;

use pagewell_device::Device;

use crate::sector::Layout;
use crate::sectors::Sectors;
use crate::window::Window;
use crate::{Result, bytes};

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    /// First byte of its first sector.
    pub start: u64,
    /// Bytes at most; the device may end before.
    pub length_bytes: u64,
    /// How its sectors are stored.
    pub layout: Layout,
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
}
