//! For which user files are written, and which user gets errors.
//!
//! **Problem.** What a program writes leaves later, perhaps after another user has written to the
//! same file; but the server judges each WRITE by its user.
//!
//! **Rule.** Everything of a file that is not safe at the server was written by one user, for which
//! its WRITEs and COMMITs are made and repeated. Before another user writes, it is committed.
//!
//! ```text
//!   alice writes, alice writes ───> bob writes ───────────────────────> bob writes
//!                                   WRITE, COMMIT as alice; then in memory, as bob
//! ```
//!
//! An error is reported once to the user whose bytes were lost, with the next write, commit or
//! close, or to another that is the last to have the file open: a program may write as one user and
//! close as another. What the server did not take leaves the cache when any user does so.
//!
//! **Known weakness.** Users that write to one file in turn pay for a COMMIT at each turn. Programs
//! of one user are not distinguished, nor users that fail at one file after eight others. After an
//! error was reported and its file forgotten, a commit may report another loss.

use std::sync::Arc;

use pagewell_base::sync::{RwLockReadGuard, RwLockWriteGuard};
use pagewell_fs::{Call, Error, Result};

use super::calls::may_wait;
use super::data::{Data, check_end};
use super::failures::Failures;
use super::node::Node;

#[expect(dead_code, reason = "held, not looked at")]
pub(super) enum Held<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    /// The first write of another user.
    Alone(RwLockWriteGuard<'a, ()>),
}

impl Data {
    /// Holds a file's data for the caller's write up to `end`.
    pub(super) fn hold_to_write<'a>(
        &self,
        call: &Call<'_>,
        node: &'a Arc<Node>,
        end: u64,
    ) -> Result<Held<'a>> {
        check_end(end)?;
        let shared = match node.data().try_read() {
            Some(shared) => shared,
            None => {
                may_wait(call)?;
                node.data().read()
            }
        };
        let mut state = node.lock();
        if state.begin_write(call.credentials, || self.objects().user(call)) {
            drop(state);
            return Ok(Held::Shared(shared));
        }
        drop((state, shared));
        may_wait(call)?;
        // To the end of the write: users that write in turn would else only change turns.
        let alone = node.data().write();
        if node.lock().is_uncommitted() {
            self.make_safe(node)?;
        }
        node.lock().set_writer(self.objects().user(call));
        Ok(Held::Alone(alone))
    }

    /// Brings all of a file to the server's stable storage, and reports what failed.
    pub(super) fn commit_node(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<()> {
        self.make_safe(node)?;
        self.report_failure(call, node)
    }

    /// [`pagewell_fs::Finish::Sync`].
    pub(super) fn sync(&self) -> Result<()> {
        self.store().sync().map_err(|error| self.error(&error))?;
        let mut result = Ok(());
        for node in self.objects().files().failed() {
            result = result.and(self.report(&node, Failures::take_all));
        }
        result
    }

    /// An unreported error of a write, of any file, when nothing of them is read any more. Does not
    /// wait.
    pub(super) fn unreported_failure(&self) -> Result<()> {
        let mut result = Ok(());
        for node in self.objects().files().failed() {
            let first = node.lock().failures_mut().take_all();
            result = result.and(first.map_or(Ok(()), Err));
            self.objects().files().was_reported(&node);
        }
        result
    }

    /// The caller's unreported error. What the server does not have is discarded.
    pub(super) fn report_failure(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<()> {
        let state = node.lock();
        let is_last = state.opens() == 1;
        if !state.failures().concern(call.credentials, is_last) {
            return Ok(());
        }
        drop(state);
        may_wait(call)?;
        self.report(node, |failures| failures.take(call.credentials, is_last))
    }

    fn report(
        &self,
        node: &Arc<Node>,
        take: impl FnOnce(&mut Failures) -> Option<Error>,
    ) -> Result<()> {
        let _alone = node.data().write();
        if node.lock().failures().are_cached() {
            self.throw_away(node)?;
        }
        let mut state = node.lock();
        state.forgot_refused();
        let failure = take(state.failures_mut());
        if state.failures().is_reported() {
            drop(state);
            self.objects().files().was_reported(node);
        }
        failure.map_or(Ok(()), Err)
    }
}
