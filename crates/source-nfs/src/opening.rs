//! Opening and closing: what one program wrote and closed, another that opens it later sees.
//!
//! An open asks for the attributes, whatever is believed. When they tell of a change that was not
//! ours, or of one that nobody can tell whose it was, what is ours is written, and the cached data
//! thrown away. A close writes everything, has it committed, and tells of errors; the attributes
//! that come with the last answer are those that the next open compares.

use std::sync::Arc;

use pagewell_fs::{Call, FileId, Opened, Result};

use super::calls::may_wait;
use super::data::Data;
use super::node::Node;
use super::unlink::Remover;

/// Keeps a file open.
struct Hold {
    remover: Arc<Remover>,
    node: Arc<Node>,
}

/// Keeps a directory open.
struct DirectoryHold {
    node: Arc<Node>,
}

impl Drop for DirectoryHold {
    fn drop(&mut self) {
        self.node.lock().close();
    }
}

/// Which programs have what open.
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

    /// Finds out whether what was reported between writes of ours was made by these: once they have
    /// all been answered, and no more are made, nobody need guess.
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
                // What the next open compares with; usually the last answer has reported it.
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
