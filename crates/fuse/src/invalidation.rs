//! Attributes and pages that the kernel is to drop.

use std::sync::{Arc, OnceLock};

use fuser::{INodeNo, Notifier};

use crate::notify::NoticeQueue;

#[derive(Default)]
pub(crate) struct Invalidation {
    notifier: OnceLock<Notifier>,
    /// Nodes whose pages go.
    pages: Arc<NoticeQueue<u64>>,
}

impl Invalidation {
    pub(crate) fn start(&self, notifier: Notifier) -> std::io::Result<()> {
        let _ = self.notifier.set(notifier.clone());
        self.pages.start("fuse-forget", move |node| {
            // The kernel has forgotten the file, and its pages with it.
            let _ = notifier.inval_inode(INodeNo(node), 0, 0);
        })
    }

    /// Has the kernel ask for the attributes of a file next time, and drop its pages if they have
    /// changed.
    pub(crate) fn expire_attributes(&self, node: u64) {
        if let Some(notifier) = self.notifier.get() {
            // An offset below zero means no pages, so this waits for no lock of a page.
            let _ = notifier.inval_inode(INodeNo(node), -1, 0);
        }
    }

    /// Has the kernel drop the attributes and pages of a file, some time later.
    pub(crate) fn drop_pages(&self, node: u64) {
        self.pages.add(node);
    }

    pub(crate) fn stop(&self) {
        self.pages.stop();
    }
}
