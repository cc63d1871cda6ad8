//! A new file is sent while it is written.
//!
//! ```text
//!   write ──> behind the next slot? ──> a thread: upload/ahead.rs ──> parts
//!   fsync, close ──> the rest, and the end of the same upload
//! ```
//!
//! This is done with files of which the store keeps no byte, written without a hole from the
//! begin, where a commit is sent to the store. Writers wait for no request; while a part is
//! claimed they wait for a write that is under way. A failure is silent: the commit sends all.
//!
//! A store takes metadata when an upload begins. So the time of the last change is that of this
//! begin, until the file is an object. Other times or modes that are set meanwhile cost a copy
//! inside the store after the commit, fewer requests and bytes than all parts once more.
//!
//! Weakness: a kernel that collects writes itself sets a time before each commit.

use std::ops::Range;
use std::sync::Arc;

use pagewell_fs::Error;
use pagewell_object_client::Metadata;

use super::content::Content;
use super::file::File;
use super::node::Node;
use super::sending::Sender;
use super::upload::{Failure, Source, Written};

/// A file that is sent while it is written.
struct Follower<'a> {
    sender: &'a Sender,
    node: &'a Node,
    file: &'a File,
    content: &'a Content,
}

impl Source for Follower<'_> {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), Error> {
        Source::read(self.content, offset, target)
    }
}

impl Written for Follower<'_> {
    fn begin(&self) -> Result<Metadata, Failure> {
        let base = self.content.backing().base();
        let base = base.as_ref().map(|base| base.version());
        self.sender.begin_ahead(self.node, self.file, base)
    }

    fn is_written(&self, until: u64) -> bool {
        !self.file.is_removed() && self.content.backing().may_go_ahead(until)
    }

    fn goes(&self, range: Range<u64>, until: u64) -> bool {
        !self.file.is_removed() && self.content.goes_ahead(range, until)
    }
}

/// Begins to send, or goes on, if a write up to `end` has made something due.
pub(super) fn follow(sender: &Arc<Sender>, node: &Arc<Node>, end: u64) {
    let Some(content) = node.file().and_then(File::changing_content) else {
        return;
    };
    let until = content.ahead().is_due_at(sender.uploader());
    let is_due = until.is_some_and(|until| end >= until && content.backing().may_go_ahead(until));
    if !is_due || !content.ahead().may_enter() {
        return;
    }
    let (of, node) = (sender.clone(), node.clone());
    sender.start(Box::new(move || send(&of, &node, &content)));
}

fn send(sender: &Sender, node: &Node, content: &Content) {
    let Some(file) = node.file() else { return };
    let follower = Follower {
        sender,
        node,
        file,
        content,
    };
    let remote = sender.remote();
    let of = (node.key(), &follower as &dyn Written);
    let sent = content
        .ahead()
        .send(sender.uploader(), (remote, sender), of);
    if let Err(failure) = sent {
        let key = node.key();
        tracing::debug!("{key}: is not sent while it is written: {failure:?}");
        file.end_ahead();
    }
}
