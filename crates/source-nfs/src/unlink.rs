//! REMOVE, RMDIR, RENAME, and what is open when its name goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_fs::{Call, Change, Error, FileId, Result};
use pagewell_sunrpc::nfs3::{Procedure, RemoveReply, RenameArguments, RenameBody, RenameReply};

use super::calls::whole;
use super::data::bury;
use super::lookup::Namespace;
use super::naming::{NameChange, either, operation};
use super::node::Node;
use super::objects::Objects;
use super::silly::{self, Silly};

pub(super) struct Remover {
    objects: Arc<Objects>,
    namespace: Arc<Namespace>,
    /// Files that are open.
    opens: AtomicUsize,
}

impl Remover {
    pub(super) fn new(objects: Arc<Objects>, namespace: Arc<Namespace>) -> Self {
        Self {
            objects,
            namespace,
            opens: AtomicUsize::new(0),
        }
    }

    pub(super) fn opened(&self) {
        self.opens.fetch_add(1, Ordering::AcqRel);
    }

    /// A file was closed, and is removed if that was postponed.
    pub(super) fn closed(&self, node: &Arc<Node>) {
        self.opens.fetch_sub(1, Ordering::AcqRel);
        let hidden = node.lock().close();
        if let Some(silly) = hidden {
            self.remove_hidden(node, &silly);
        }
    }

    /// [`pagewell_fs::FileSystem::remove`].
    pub(super) fn remove(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
    ) -> Result<Change> {
        self.objects.calls().may_change(call)?;
        pagewell_fs::name::check_old(name)?;
        let directory = self.objects.directory(call, directory)?;
        let target = self.target(call, &directory, name)?;
        if let Some(target) = &target
            && self.must_stay(call, target, name)?
        {
            return self.hide(call, &directory, name, target);
        }
        let change = self.send_remove(call, &directory, name, Procedure::Remove)?;
        if let Some(target) = target {
            self.lost_a_name(call, &target);
        }
        Ok(change)
    }

    /// The object of a name that is to go, looked up when files are open.
    fn target(
        &self,
        call: &Call<'_>,
        directory: &Arc<Node>,
        name: &[u8],
    ) -> Result<Option<Arc<Node>>> {
        if let Some(known) = self.namespace.known_meaning(directory, name) {
            return Ok(Some(known));
        }
        if self.opens.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        match self.namespace.ask_name(call, directory, name) {
            Ok(entry) => Ok(Some(self.objects.node(&entry.id))),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the object must stay without this name: it is open, and has no other.
    fn must_stay(&self, call: &Call<'_>, target: &Node, name: &[u8]) -> Result<bool> {
        if target.lock().opens() == 0 || silly::is_silly(name) {
            return Ok(false);
        }
        let attributes = match self.objects.ask_attributes(call, target) {
            // The open file is gone already; the name may mean another object.
            Err(Error::Stale) => return Ok(false),
            asked => asked?,
        };
        let is_hidden = target.lock().is_hidden();
        Ok(!attributes.file_type.is_directory() && attributes.link_count <= 1 && !is_hidden)
    }

    fn hide(
        &self,
        call: &Call<'_>,
        directory: &Arc<Node>,
        name: &[u8],
        target: &Arc<Node>,
    ) -> Result<Change> {
        let number = target.lock().known().map_or(0, |known| known.file_id);
        for _ in 0..silly::ATTEMPTS_MAX {
            let hidden = silly::next_name(number);
            match self.namespace.ask_name(call, directory, &hidden) {
                Err(Error::NotFound) => {}
                Ok(_) => continue,
                Err(error) => return Err(error),
            }
            let (change, _) = self.send_rename(call, (directory, name), (directory, &hidden))?;
            let silly = Box::new(Silly {
                directory: *directory.id(),
                name: hidden,
                credentials: call.credentials.clone(),
            });
            self.keep_hidden(target, silly);
            return Ok(change);
        }
        Err(Error::Exists)
    }

    /// Gives a hidden object its name back.
    fn show_again(&self, call: &Call<'_>, directory: &Arc<Node>, name: &[u8], hidden: &Arc<Node>) {
        let Some(silly) = hidden.lock().take_hidden() else {
            return;
        };
        // It may have come without an answer.
        let is_free = matches!(
            self.namespace.ask_name(call, directory, name),
            Err(Error::NotFound)
        );
        let back = (directory, &silly.name[..]);
        if !is_free || self.send_rename(call, back, (directory, name)).is_err() {
            self.keep_hidden(hidden, silly);
        }
    }

    /// Keeps a hidden name until the last close, which may have come meanwhile.
    fn keep_hidden(&self, node: &Arc<Node>, silly: Box<Silly>) {
        let mut state = node.lock();
        if state.opens() > 0 {
            state.hide(silly);
        } else {
            drop(state);
            self.remove_hidden(node, &silly);
        }
    }

    /// Removes what was hidden, after the last close.
    fn remove_hidden(&self, node: &Arc<Node>, silly: &Silly) {
        let call = Call::new(&silly.credentials, true);
        let directory = self.objects.node(&silly.directory);
        // A file that cannot be removed now stays, as when the client dies.
        let removed = self.send_remove(&call, &directory, &silly.name, Procedure::Remove);
        if removed.is_ok() {
            self.lost_a_name(&call, node);
        }
    }

    /// A name of it was removed; after the last one its data is forgotten, unwritten bytes only
    /// when the server has no such file any more.
    ///
    /// **Known weakness.** What is written just then is lost when another client has just made
    /// another name of it.
    fn lost_a_name(&self, call: &Call<'_>, target: &Arc<Node>) {
        target.excuse();
        let mut state = target.lock();
        state.outlive();
        let was_last = state.known().is_some_and(|known| known.link_count <= 1);
        let is_uncommitted = state.is_uncommitted();
        let is_open = state.opens() > 0;
        drop(state);
        if is_open || !was_last {
            return;
        }
        if is_uncommitted {
            match self.objects.ask_attributes(call, target) {
                Err(Error::Stale) => {}
                Ok(attributes) if attributes.link_count == 0 => {}
                _ => return,
            }
            target.lock().was_removed();
            // The handle may mean another object from here on.
            self.objects.files().forget(target);
        }
        bury(target);
    }

    /// [`pagewell_fs::FileSystem::remove_directory`].
    pub(super) fn remove_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
    ) -> Result<Change> {
        self.objects.calls().may_change(call)?;
        pagewell_fs::name::check_old(name)?;
        let directory = &*self.objects.directory(call, directory)?;
        let target = self.namespace.known_meaning(directory, name);
        let change = self.send_remove(call, directory, name, Procedure::Rmdir)?;
        if let Some(target) = target {
            let mut target = target.lock();
            target.doubt();
            target.outlive();
        }
        Ok(change)
    }

    fn send_remove(
        &self,
        call: &Call<'_>,
        directory: &Node,
        name: &[u8],
        procedure: Procedure,
    ) -> Result<Change> {
        let parent = self.objects.root().on_wire(directory.id());
        let object = operation(&parent, name);
        let (answer, change, since) = self.namespace.change_names(
            call,
            directory,
            (procedure, &object),
            whole::<RemoveReply>,
            |reply| *either(reply),
        )?;
        if let Err(failure) = answer.value {
            let (gone, status) = (NameChange::Remove, failure.status);
            let is_doubtful = gone.is_doubtful(status, answer.was_resent);
            self.namespace
                .prove(call, (directory, name), gone, status, is_doubtful)?;
        }
        self.namespace.names().enter(directory, name, None, since);
        Ok(change)
    }

    /// [`pagewell_fs::FileSystem::rename`].
    pub(super) fn rename(
        &self,
        call: &Call<'_>,
        from_directory: &FileId,
        from_name: &[u8],
        to_directory: &FileId,
        to_name: &[u8],
    ) -> Result<(Change, Change)> {
        self.objects.calls().may_change(call)?;
        pagewell_fs::name::check_old(from_name)?;
        pagewell_fs::name::check_old(to_name)?;
        let from = self.objects.directory(call, from_directory)?;
        let to = self.objects.directory(call, to_directory)?;
        let replaced = self.target(call, &to, to_name)?;
        if self.namespace.known_meaning(&from, from_name).is_none() {
            // What moved proves a repeated call. The call itself reports a missing name.
            let _ = self.namespace.ask_name(call, &from, from_name);
        }
        let moved = self.namespace.known_meaning(&from, from_name);
        let is_one_name = from.number() == to.number() && from_name == to_name;
        let is_same = match (&replaced, &moved) {
            (Some(replaced), Some(moved)) => replaced.number() == moved.number(),
            _ => is_one_name,
        };
        let mut hidden = None;
        if let Some(replaced) = replaced.as_ref().filter(|_| !is_same)
            && self.must_stay(call, replaced, to_name)?
        {
            self.hide(call, &to, to_name, replaced)?;
            hidden = Some(replaced);
        }
        let sent = self.send_rename(call, (&from, from_name), (&to, to_name));
        if let (Err(_), Some(hidden)) = (&sent, hidden) {
            self.show_again(call, &to, to_name, hidden);
        }
        let changes = sent?;
        let is_gone = |node: &&Arc<Node>| !is_same && !node.lock().is_hidden();
        if let Some(replaced) = replaced.as_ref().filter(is_gone) {
            self.lost_a_name(call, replaced);
        }
        Ok(changes)
    }

    fn send_rename(
        &self,
        call: &Call<'_>,
        (from, from_name): (&Arc<Node>, &[u8]),
        (to, to_name): (&Arc<Node>, &[u8]),
    ) -> Result<(Change, Change)> {
        let known_at = from.stamp();
        let moved = self.namespace.known_meaning(from, from_name);
        let (from_id, to_id) = (
            self.objects.root().on_wire(from.id()),
            self.objects.root().on_wire(to.id()),
        );
        let arguments = RenameArguments {
            from: operation(&from_id, from_name),
            to: operation(&to_id, to_name),
        };
        let is_one = from.number() == to.number();
        let from_begun = from.begin_change();
        let to_begun = if is_one {
            from_begun
        } else {
            to.begin_change()
        };
        let answer =
            self.objects
                .calls()
                .ask(call, Procedure::Rename, &arguments, whole::<RenameReply>);
        let answer = answer.inspect_err(|_| {
            from.end_unanswered(self.objects.calls().now());
            if !is_one {
                to.end_unanswered(self.objects.calls().now());
            }
        })?;
        let RenameBody {
            from_directory_wcc,
            to_directory_wcc,
        } = either(&answer.value);
        let end = |directory, wcc| self.objects.files().end_change(directory, wcc, answer.sent);
        let (from_change, from_ended) = end(from, from_directory_wcc);
        let (to_change, to_ended) = if is_one {
            (from_change, from_ended)
        } else {
            end(to, to_directory_wcc)
        };
        if let Err(failure) = answer.value {
            self.namespace.names().forget(from, from_name);
            let change = NameChange::Rename(moved.as_ref().map(|node| *node.id()));
            let status = failure.status;
            let is_doubtful = change.is_doubtful(status, answer.was_resent);
            self.namespace
                .prove(call, (to, to_name), change, status, is_doubtful)?;
        }
        // What moved is known when the old name has meant the same all the time.
        let is_known = moved.is_some() && from_ended == known_at.next().next();
        let since = (is_known && to_ended.ends_alone(to_begun)).then_some(to_ended);
        // Not as missing: of two names of one object, a rename leaves both.
        self.namespace.names().forget(from, from_name);
        let meaning = moved.as_ref().map(|moved| *moved.id());
        self.namespace.names().enter(to, to_name, meaning, since);
        if let Some(moved) = moved {
            moved.excuse();
        }
        Ok((from_change, to_change))
    }
}
