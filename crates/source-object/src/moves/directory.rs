//! All objects of a directory under another prefix.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_object_client::{Condition, Error as RemoteError, ListQuery, ListedObject, Version};

use super::failure::Failure;
use super::file::{Carried, Mover, is_copy_of};
use super::intent::Intent;
use crate::side_by_side::side_by_side;

/// How often objects that came meanwhile are moved, too.
const ROUNDS_MAX: u32 = 4;
const PAGE_ENTRIES: u32 = 1_000;
/// Pages without a new entry before a listing counts as endless.
const EMPTY_PAGES_MAX: u32 = 100;
const KEY_BYTES_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub files_max: usize,
    pub bytes_max: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Objects, with markers of folders.
    pub files: u64,
    pub bytes: u64,
}

impl Mover<'_> {
    /// Gives all objects below `from` keys below `to`. Both end with `/`. The export's keys begin
    /// with `root`. `note` learns of each object that went, with both keys.
    ///
    /// Others see objects go one by one; each is in at least one of both places. After a failure
    /// the same call goes on.
    /// # Errors
    /// [`Failure`]. Nothing was moved after [`Failure::TooMuch`], [`Failure::NotEmpty`],
    /// [`Failure::TooLong`], [`Failure::Inside`] and [`Failure::NoSource`]. After
    /// [`Failure::Target`] both places have an object with one name, and these differ.
    pub(crate) fn rename_directory(
        &self,
        root: &str,
        (from, to): (&str, &str),
        limits: Limits,
        note: &(dyn Fn(&str, &str, &Carried) + Sync),
    ) -> Result<Moved, Failure> {
        let is_inside = from.starts_with(to) || to.starts_with(from);
        if is_inside || !from.ends_with('/') || !to.ends_with('/') {
            return Err(Failure::Inside);
        }
        let intent = Intent {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let objects = self.below(from, limits)?;
        if objects.is_empty() {
            // Another mover may have died just before its end.
            let is_intended = intent.is_there(self, root)?;
            if !is_intended {
                return Err(Failure::NoSource);
            }
            intent.end(self, root)?;
            return Ok(Moved::default());
        }
        let marker = self.free_target(root, &intent)?;
        check_lengths(&objects, &intent)?;
        intent.begin(self, root)?;
        let moving = Moving {
            mover: self,
            intent: &intent,
            marker,
            note,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        let result = moving.run(objects, limits);
        let moved = Moved {
            files: moving.files.into_inner(),
            bytes: moving.bytes.into_inner(),
        };
        let place = self.remote.describe();
        let Moved { files, bytes } = moved;
        let done = format!("{files} objects of {bytes} bytes went from {from} to {to}");
        match result {
            Ok(()) => {
                tracing::info!("{place}: {done}");
                // The move is at its end even if this fails.
                if let Err(failure) = intent.end(self, root) {
                    tracing::warn!("{place}: the intent of a move is left behind: {failure:?}");
                }
                Ok(moved)
            }
            Err(failure) => {
                tracing::warn!("{place}: {done}, and then: {failure:?}; it can go on");
                Err(failure)
            }
        }
    }

    fn below(&self, prefix: &str, limits: Limits) -> Result<BTreeMap<String, Version>, Failure> {
        let mut found = BTreeMap::new();
        let (mut bytes, mut empty_pages) = (0_u64, 0);
        let mut token = None;
        loop {
            let query = ListQuery {
                prefix,
                delimiter: false,
                token,
                page_entries_max: PAGE_ENTRIES,
            };
            let page = self.remote.list(&query)?;
            let before = found.len();
            for ListedObject { key, version } in page.objects {
                if !key.starts_with(prefix) {
                    continue;
                }
                bytes = bytes.saturating_add(version.length_bytes);
                found.insert(key, version);
                if found.len() > limits.files_max || bytes > limits.bytes_max {
                    return Err(Failure::TooMuch);
                }
            }
            empty_pages += u32::from(found.len() == before);
            token = page.next;
            if token.is_none() {
                return Ok(found);
            }
            if empty_pages > EMPTY_PAGES_MAX {
                let place = self.remote.describe();
                let text = format!("{place}: the listing of {prefix} has no end");
                return Err(RemoteError::Protocol(text).into());
            }
        }
    }

    /// Refuses a target that has files, unless the move goes on. Returns the version of its marker.
    fn free_target(&self, root: &str, intent: &Intent) -> Result<Option<Version>, Failure> {
        let query = ListQuery {
            prefix: &intent.to,
            delimiter: false,
            token: None,
            page_entries_max: 2,
        };
        let page = self.remote.list(&query)?;
        let (markers, others): (Vec<ListedObject>, Vec<ListedObject>) = page
            .objects
            .into_iter()
            .partition(|object| object.key == intent.to);
        let is_empty = others.is_empty() && page.next.is_none();
        if !is_empty && !intent.is_there(self, root)? {
            return Err(Failure::NotEmpty);
        }
        Ok(markers.into_iter().next().map(|object| object.version))
    }
}

fn check_lengths(objects: &BTreeMap<String, Version>, intent: &Intent) -> Result<(), Failure> {
    let longest = objects.keys().map(String::len).max().unwrap_or(0);
    let longest = longest - intent.from.len().min(longest) + intent.to.len();
    if longest > KEY_BYTES_MAX {
        return Err(Failure::TooLong);
    }
    Ok(())
}

struct Moving<'a> {
    mover: &'a Mover<'a>,
    intent: &'a Intent,
    /// The marker of the target, which that of the source replaces.
    marker: Option<Version>,
    note: &'a (dyn Fn(&str, &str, &Carried) + Sync),
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Moving<'_> {
    /// Moves these objects, and those that came meanwhile.
    fn run(&self, mut objects: BTreeMap<String, Version>, limits: Limits) -> Result<(), Failure> {
        for _ in 0..ROUNDS_MAX {
            // Markers go last, the deepest first: folders last as long as their files.
            let (markers, files): (Vec<_>, Vec<_>) =
                objects.into_iter().partition(|(key, _)| key.ends_with('/'));
            side_by_side(self.mover.uploader.budget(), &files, &|(key, version)| {
                self.one(key, version)
            })?;
            for (key, version) in markers.iter().rev() {
                self.one(key, version)?;
            }
            objects = self.mover.below(&self.intent.from, limits)?;
            if objects.is_empty() {
                return Ok(());
            }
        }
        let place = self.mover.remote.describe();
        let text = format!("{place}: files come into {} all the time", self.intent.from);
        Err(RemoteError::TryLater(text).into())
    }

    /// Moves an object, or ends the move that another mover has begun.
    fn one(&self, from: &str, version: &Version) -> Result<(), Failure> {
        let Intent {
            from: prefix,
            to: target,
        } = self.intent;
        let rest = from.strip_prefix(prefix.as_str()).unwrap_or_default();
        let to = format!("{target}{rest}");
        let condition = match &self.marker {
            Some(marker) if rest.is_empty() && !marker.is_weak() => Condition::Is(marker.clone()),
            _ => Condition::Absent,
        };
        match self.mover.carry((from, version), &to, condition, true) {
            Ok(carried) => {
                self.files.fetch_add(1, Ordering::Relaxed);
                let bytes = carried.made.length_bytes;
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                (self.note)(from, &to, &carried);
                Ok(())
            }
            // It was deleted, or another mover was quicker.
            Err(Failure::NoSource) => Ok(()),
            Err(Failure::Target) => self.end_of_another(from, &to),
            Err(failure) => Err(failure),
        }
    }

    fn end_of_another(&self, from: &str, to: &str) -> Result<(), Failure> {
        let mover = self.mover;
        let source = match mover.remote.head(from) {
            Ok(source) => source,
            Err(RemoteError::NotFound) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let target = match mover.remote.head(to) {
            Ok(target) => target,
            // It has just gone again, or the store has folders that are no objects.
            Err(RemoteError::NotFound) => return Err(Failure::Target),
            Err(error) => return Err(error.into()),
        };
        let are_markers = from.ends_with('/')
            && source.version.length_bytes == 0
            && target.version.length_bytes == 0;
        if !are_markers && !is_copy_of(&target, &source.version) {
            let place = mover.remote.describe();
            tracing::warn!("{place}: {from} stays: {to} is there, and is not a copy of it");
            return Err(Failure::Target);
        }
        match mover.delete(mover.store()?, from, &source.version) {
            Ok(()) | Err(RemoteError::NotFound) => {
                let carried = Carried {
                    of: source.version,
                    made: target.version,
                };
                (self.note)(from, to, &carried);
                Ok(())
            }
            Err(RemoteError::Changed) => Err(Failure::Target),
            Err(error) => Err(error.into()),
        }
    }
}
