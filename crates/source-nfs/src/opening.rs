//! Opening and closing: what one program wrote and closed, another that opens it later sees.
//!
//! An open asks for the attributes, whatever is believed. When they tell of a change that was not
//! ours, or of one that nobody can tell whose it was, what is ours is written, and the cached data
//! thrown away. A close writes everything, has it committed, and tells of errors; the attributes
//! that come with the last answer are those that the next open compares.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagewell_fs::{Call, FileId, Opened, Result};

use super::filesystem::Shared;
use super::node::{Node, State};

/// Keeps a file open.
struct Hold {
    shared: Arc<Shared>,
    node: Arc<Node>,
}

/// Keeps a directory open.
struct DirectoryHold {
    node: Arc<Node>,
}

impl State {
    /// Its name is gone. A directory that is open stays what it was, and is empty.
    pub(super) fn outlive(&mut self) {
        self.is_removed |= self.is_directory() && self.opens > 0;
    }
}

impl Drop for DirectoryHold {
    fn drop(&mut self) {
        let mut state = self.node.lock();
        state.opens = state.opens.saturating_sub(1);
        state.is_removed &= state.opens > 0;
    }
}

impl Shared {
    /// [`pagewell_fs::FileSystem::hold`].
    pub(super) fn hold_directory(&self, id: &FileId) -> pagewell_fs::Hold {
        let node = self.files.node(id);
        node.lock().opens += 1;
        Box::new(DirectoryHold { node })
    }

    /// [`pagewell_fs::FileSystem::open`].
    pub(super) fn open(self: &Arc<Self>, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let node = self.files.node(id);
        if self.calls.options.close_to_open {
            self.ask_attributes(call, &node)?;
            if node.lock().is_undecided() {
                self.decide(call, &node)?;
            }
        }
        let attributes = self.attributes_of(call, &node)?;
        self.settle(call, &node)?;
        self.end_doubt(call, &node)?;
        let mut state = node.lock();
        let changes = state.changes;
        let keep_cache = state.changes_at_open.replace(changes) == Some(changes);
        state.opens += 1;
        let attributes = state.known().unwrap_or(attributes);
        drop(state);
        self.opens.fetch_add(1, Ordering::AcqRel);
        let shared = self.clone();
        Ok(Opened {
            attributes,
            keep_cache,
            file: None,
            hold: Some(Box::new(Hold { shared, node })),
        })
    }

    /// Finds out whether what was reported between writes of ours was made by these: once they have
    /// all been answered, and no more are made, nobody need guess.
    fn decide(&self, call: &Call<'_>, node: &Node) -> Result<()> {
        let _alone = node.data.write();
        self.write_out(node)?;
        self.ask_attributes(call, node)?;
        let mut state = node.lock();
        if state.is_undecided() {
            // A COMMIT is on its way.
            state.changed_by_others();
        }
        Ok(())
    }

    /// [`pagewell_fs::FileSystem::close`].
    pub(super) fn close(&self, call: &Call<'_>, id: &FileId) -> Result<()> {
        let node = self.files.node(id);
        if node.lock().is_uncommitted() {
            Self::may_wait(call)?;
            self.commit_node(call, &node)?;
            if self.calls.options.close_to_open {
                // What the next open compares with; usually the last answer has reported it.
                self.attributes_of(call, &node)?;
            }
        }
        self.report_failure(call, &node)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.opens.fetch_sub(1, Ordering::AcqRel);
        let mut state = self.node.lock();
        state.opens = state.opens.saturating_sub(1);
        let is_last = state.opens == 0;
        let silly = state.silly.take_if(|_| is_last);
        drop(state);
        if let Some(silly) = silly {
            self.shared.remove_hidden(&self.node, &silly);
        }
    }
}
