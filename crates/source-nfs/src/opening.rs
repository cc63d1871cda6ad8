//! Opening and closing: a program that opens a file sees what others wrote and closed.
//!
//! An open asks for the attributes, whatever is believed. When they may report a change by others,
//! what is ours is written, and the cached data discarded. A close has everything committed, and
//! reports errors; the next open compares with the attributes of the last answer.

use std::sync::Arc;

use pagewell_fs::{Call, FileId, Opened, Result};

use super::calls::may_wait;
use super::data::Data;
use super::node::Node;
use super::unlink::Remover;

struct Hold {
    remover: Arc<Remover>,
    node: Arc<Node>,
}

struct DirectoryHold {
    node: Arc<Node>,
}

impl Drop for DirectoryHold {
    fn drop(&mut self) {
        self.node.lock().close();
    }
}

pub(super) struct Openings {
    data: Arc<Data>,
    remover: Arc<Remover>,
}

impl Openings {
    pub(super) fn new(data: Arc<Data>, remover: Arc<Remover>) -> Self {
        Self { data, remover }
    }

    /// [`pagewell_fs::FileSystem::hold`].
    pub(super) fn hold_directory(&self, id: &FileId) -> pagewell_fs::Hold {
        let node = self.data.objects().node(id);
        node.lock().open();
        Box::new(DirectoryHold { node })
    }

    /// [`pagewell_fs::FileSystem::open`].
    pub(super) fn open(&self, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let node = self.data.objects().node(id);
        if self.data.objects().calls().options().close_to_open {
            self.data.objects().ask_attributes(call, &node)?;
            if node.lock().is_undecided() {
                self.decide(call, &node)?;
            }
        }
        let attributes = self.data.objects().attributes_of(call, &node)?;
        self.data.settle(call, &node)?;
        self.data.end_doubt(call, &node)?;
        let mut state = node.lock();
        let keep_cache = state.open();
        let attributes = state.known().unwrap_or(attributes);
        drop(state);
        self.remover.opened();
        let remover = self.remover.clone();
        Ok(Opened {
            attributes,
            keep_cache,
            file: None,
            hold: Some(Box::new(Hold { remover, node })),
        })
    }

    /// Finds out whether writes of ours made what was reported between them, by waiting for all of
    /// them and allowing no others.
    fn decide(&self, call: &Call<'_>, node: &Node) -> Result<()> {
        let _alone = node.data().write();
        self.data.write_out(node)?;
        self.data.objects().ask_attributes(call, node)?;
        let mut state = node.lock();
        if state.is_undecided() {
            // A COMMIT is on its way.
            state.changed_by_others();
        }
        Ok(())
    }

    /// [`pagewell_fs::FileSystem::close`].
    pub(super) fn close(&self, call: &Call<'_>, id: &FileId) -> Result<()> {
        let node = self.data.objects().node(id);
        if node.lock().is_uncommitted() {
            may_wait(call)?;
            self.data.commit_node(call, &node)?;
            if self.data.objects().calls().options().close_to_open {
                // The next open compares with them; usually the last answer has reported them.
                self.data.objects().attributes_of(call, &node)?;
            }
        }
        self.data.report_failure(call, &node)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.remover.closed(&self.node);
    }
}
