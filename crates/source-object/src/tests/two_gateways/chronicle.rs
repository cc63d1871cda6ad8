//! What the store has had, what each gateway has seen of it and done, and whether that is right.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use pagewell_object_client::Version;

use super::draft::{Draft, Edit, What};

pub(super) const GATEWAYS: usize = 2;

/// A version of an object.
struct Made {
    tag: String,
    bytes: Arc<[u8]>,
    /// The gateway, and the number of its draft.
    by: (usize, u64),
}

/// One object, and the file of that name at each gateway.
#[derive(Default)]
struct Named {
    /// Versions, and `None` for each removal.
    chain: Vec<Option<Made>>,
    seen: [Vec<String>; GATEWAYS],
    drafts: [Option<Draft>; GATEWAYS],
    /// What a start after a kill finds.
    journaled: [Option<Draft>; GATEWAYS],
    /// A create is on its way.
    is_creating: [bool; GATEWAYS],
    /// A rename to this name is on its way, from that one.
    comes_from: [Option<String>; GATEWAYS],
}

impl Named {
    fn bytes(&self, tag: &str) -> Option<&Arc<[u8]>> {
        let mut made = self.chain.iter().flatten();
        Some(&made.find(|made| made.tag == tag)?.bytes)
    }

    /// The bytes that a draft may be based on.
    fn bases(&self, gateway: usize, draft: &Draft) -> Vec<&[u8]> {
        if draft.is_new() {
            return vec![&[]];
        }
        let seen = &self.seen[gateway];
        let known = &seen[..draft.known.min(seen.len())];
        let made = self.chain.iter().flatten();
        let bases =
            made.filter(|made| known.contains(&made.tag) || made.by == (gateway, draft.number));
        let nothing = draft.may_be_new().then_some(&[][..]);
        bases.map(|made| &*made.bytes).chain(nothing).collect()
    }
}

/// What a request would make an object of.
pub(super) struct Snapshot {
    draft: Option<Draft>,
    is_creating: bool,
    comes_from: Option<String>,
    serial: u64,
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Chronicle {
    named: BTreeMap<String, Named>,
    /// Edits and drafts so far.
    serials: u64,
    /// Files of conflicts that were looked at.
    kept: BTreeSet<(usize, OsString)>,
    /// The first check that failed.
    failure: Option<String>,
    /// What was done, for people.
    log: Vec<String>,
    /// Whether requests fail, are late, or end with their gateway.
    pub is_faulty: bool,
}

impl Chronicle {
    pub(super) fn log(&mut self, text: String) {
        self.log.push(text);
    }

    pub(super) fn fail(&mut self, text: String) {
        if self.failure.is_none() {
            let log = self.log.join("\n");
            self.failure = Some(format!("{log}\n{text}"));
        }
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn named(&mut self, name: &str) -> &mut Named {
        self.named.entry(name.to_owned()).or_default()
    }

    pub(super) fn next(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// Before a request that makes an object.
    pub(super) fn snapshot(&mut self, gateway: usize, name: &str) -> Snapshot {
        let serial = self.next();
        let named = self.named(name);
        let mut draft = named.drafts[gateway].clone();
        if let Some(draft) = draft.as_mut().filter(|draft| !draft.is_certain()) {
            draft.known = named.seen[gateway].len();
        }
        Snapshot {
            draft,
            is_creating: named.is_creating[gateway],
            comes_from: named.comes_from[gateway].clone(),
            serial,
        }
    }

    /// The store has made an object of a request: "no unseen overwrite".
    pub(super) fn note_made(
        &mut self,
        gateway: usize,
        name: &str,
        (snapshot, before): (&Snapshot, Option<&Version>),
        (tag, bytes): (&Version, Vec<u8>),
    ) {
        let tag = tag_of(tag);
        let before_tag = before.map(tag_of);
        let length = bytes.len();
        self.log(format!(
            "  {gateway} makes {name} {tag} of {before_tag:?}, {length} bytes"
        ));
        let own = snapshot.draft.as_ref();
        let own = own.filter(|_| snapshot.comes_from.is_none());
        let number = own.map_or(0, |draft| draft.number);
        if let Err(reason) = self.check_made(gateway, name, (snapshot, before), &bytes) {
            self.fail(format!("{name} {tag}: {reason}"));
        }
        self.named(name).chain.push(Some(Made {
            tag,
            bytes: bytes.into(),
            by: (gateway, number),
        }));
    }

    fn check_made(
        &mut self,
        gateway: usize,
        name: &str,
        (snapshot, before): (&Snapshot, Option<&Version>),
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        if snapshot.is_creating && bytes.is_empty() && before.is_none() {
            return Ok(());
        }
        if let Some(from) = &snapshot.comes_from {
            let is_seen = before.is_none_or(|before| {
                let tag = tag_of(before);
                self.named(name).seen[gateway].contains(&tag)
            });
            let source = self.named(from);
            let mut seen = source.seen[gateway].iter();
            let is_moved = seen.any(|tag| source.bytes(tag).is_some_and(|of| **of == *bytes));
            return match (is_seen, is_moved) {
                (true, true) => Ok(()),
                (false, _) => Err("a rename has replaced what its gateway has not seen"),
                (_, false) => Err("is not what the source of the rename was"),
            };
        }
        let named = self.named(name);
        let Some(draft) = &snapshot.draft else {
            return Err("was made of no changes");
        };
        let base = match before.map(tag_of) {
            None if !draft.may_be_new() => return Err("came back: it had been removed"),
            None => &[][..],
            Some(before) => {
                let mut made = named.chain.iter().flatten();
                let made = made.find(|made| made.tag == before);
                let made = made.ok_or("was made of an unknown version")?;
                let is_own = made.by == (gateway, draft.number);
                let known = &named.seen[gateway];
                let known = &known[..draft.known.min(known.len())];
                if !is_own && (draft.is_new() || !known.contains(&before)) {
                    return Err("has replaced what its gateway had not seen");
                }
                &made.bytes
            }
        };
        let mut contents = draft.applied(base);
        if contents.iter().any(|content| content == bytes) {
            return Ok(());
        }
        // What is written while parts are sent may be in some of them.
        if let Some(now) = &named.drafts[gateway] {
            for count in draft.edits.len()..=now.edits.len() {
                let mut then = now.clone();
                then.edits.truncate(count);
                contents.extend(then.applied(base));
            }
        }
        let fits = |(at, byte): (usize, &u8)| contents.iter().any(|one| one.get(at) == Some(byte));
        let is_long = contents.iter().any(|one| one.len() == bytes.len());
        let is_racing = named.drafts[gateway]
            .as_ref()
            .is_some_and(|now| now.edits.len() > draft.edits.len());
        if is_racing && is_long && bytes.iter().enumerate().all(fits) {
            return Ok(());
        }
        Err("is not the version before with the changes of its gateway")
    }

    pub(super) fn note_gone(&mut self, name: &str) {
        self.log(format!("  {name} is gone"));
        self.named(name).chain.push(None);
    }

    /// A gateway has got an answer with this version.
    pub(super) fn note_seen(&mut self, gateway: usize, name: &str, version: &Version) {
        let tag = tag_of(version);
        let named = self.named(name);
        let seen = &mut named.seen[gateway];
        if seen.last() != Some(&tag) {
            seen.push(tag.clone());
        }
        // An answer may have been lost: the gateway finds what it has made, and that it has all.
        let made = named.chain.iter().flatten().find(|made| made.tag == tag);
        let drafts = [&mut named.drafts[gateway], &mut named.journaled[gateway]];
        for draft in drafts.into_iter().flatten() {
            let is_it = made.is_some_and(|made| {
                let is_own = made.by == (gateway, draft.number);
                is_own
                    && draft
                        .applied(&made.bytes)
                        .iter()
                        .all(|one| **one == *made.bytes)
            });
            if is_it {
                draft
                    .edits
                    .iter_mut()
                    .for_each(|edit| edit.is_certain = false);
            }
        }
    }

    /// Whether the gateway has made this version.
    pub(super) fn is_own(&mut self, gateway: usize, name: &str, version: &Version) -> bool {
        let tag = tag_of(version);
        let mut made = self.named(name).chain.iter().flatten();
        made.any(|made| made.tag == tag && made.by.0 == gateway)
    }

    /// A gateway knows that the object was made: the edits of the snapshot are in it.
    pub(super) fn note_stored(&mut self, gateway: usize, name: &str, snapshot: &Snapshot) {
        if snapshot.is_creating || snapshot.comes_from.is_some() {
            return;
        }
        let number = self.next();
        let named = self.named(name);
        let known = named.seen[gateway].len();
        let Some(draft) = &mut named.drafts[gateway] else {
            return;
        };
        draft.edits.retain(|edit| edit.serial > snapshot.serial);
        draft.known = known;
        draft.number = number;
        draft.is_doubtful = false;
        if draft.edits.is_empty() {
            named.drafts[gateway] = None;
            named.journaled[gateway] = None;
        }
    }

    /// Before a call that changes a file. Its serial.
    pub(super) fn begin_edit(&mut self, gateway: usize, name: &str, what: What) -> u64 {
        let (serial, number) = (self.next(), self.next());
        let named = self.named(name);
        let known = named.seen[gateway].len();
        let draft = named.drafts[gateway].get_or_insert_with(|| Draft {
            number,
            known,
            edits: Vec::new(),
            is_doubtful: false,
        });
        if !draft.is_certain() {
            draft.known = known;
        }
        draft.edits.push(Edit {
            what,
            serial,
            is_certain: false,
        });
        serial
    }

    /// The call has changed it.
    pub(super) fn end_edit(&mut self, gateway: usize, name: &str, serial: u64) {
        let named = self.named(name);
        let seen: Vec<_> = named.seen[gateway].clone();
        let lengths = seen.iter().filter_map(|tag| named.bytes(tag));
        let lengths: Vec<usize> = lengths.map(|bytes| bytes.len()).collect();
        let Some(draft) = &mut named.drafts[gateway] else {
            return;
        };
        let was_certain = draft.is_certain();
        if !was_certain {
            // What it is based on was seen at the latest in this call.
            draft.known = seen.len();
        }
        if let Some(edit) = draft.edits.iter_mut().find(|edit| edit.serial == serial) {
            // A file is not changed by the length that it has.
            let may_be_none = match edit.what {
                What::Cut(size) => !was_certain && lengths.contains(&(size as usize)),
                _ => false,
            };
            edit.is_certain = !may_be_none;
        }
        // Cut to what it was, it is as the store has it.
        let is_as_before = !draft.is_new() && draft.written(true).iter().all(Option::is_none);
        let base = draft.known.checked_sub(1).and_then(|at| seen.get(at));
        let draft = draft.clone();
        let base = base.and_then(|tag| named.bytes(tag));
        let is_same = |base: &Arc<[u8]>| draft.applied(base).iter().all(|one| **one == **base);
        if is_as_before && base.is_some_and(is_same) {
            named.drafts[gateway] = None;
        }
    }

    /// The call has changed nothing.
    pub(super) fn drop_edit(&mut self, gateway: usize, name: &str, serial: u64) {
        let draft = &mut self.named(name).drafts[gateway];
        if let Some(some) = draft {
            some.edits.retain(|edit| edit.serial != serial);
            if some.edits.is_empty() {
                *draft = None;
            }
        }
    }

    /// Whether a create is on its way.
    pub(super) fn is_creating(&mut self, gateway: usize, name: &str) -> bool {
        self.named(name).is_creating[gateway]
    }

    /// Whether a file has changes.
    pub(super) fn is_changed(&mut self, gateway: usize, name: &str) -> bool {
        self.named(name).drafts[gateway].is_some()
    }

    pub(super) fn creating(&mut self, gateway: usize, name: &str, is_creating: bool) {
        self.named(name).is_creating[gateway] = is_creating;
    }

    /// A file was made: in the store, or here.
    pub(super) fn note_created(&mut self, gateway: usize, name: &str, is_stored: bool) {
        let (serial, number) = (self.next(), self.next());
        let named = self.named(name);
        let before = named.drafts[gateway].take();
        let known = named.seen[gateway].len();
        if !is_stored {
            named.drafts[gateway] = Some(Draft {
                number,
                known,
                edits: vec![Edit {
                    what: What::Begin,
                    serial,
                    is_certain: true,
                }],
                is_doubtful: false,
            });
        }
        let is_lost = |before: Draft| before.is_certain() && !before.is_doubtful;
        if before.is_some_and(is_lost) {
            self.fail(format!(
                "{name}: changes of {gateway} have vanished with a create"
            ));
        }
    }

    pub(super) fn renaming(&mut self, gateway: usize, from: &str, to: &str, begins: bool) {
        let from = begins.then(|| from.to_owned());
        self.named(to).comes_from[gateway] = from;
    }

    pub(super) fn note_renamed(&mut self, gateway: usize, from: &str, to: &str) {
        let serial = self.next();
        self.note_acknowledged((gateway, from), serial, false);
        self.note_removed(gateway, to);
        self.note_removed(gateway, from);
    }

    /// A gateway has removed a file, with its changes.
    pub(super) fn note_removed(&mut self, gateway: usize, name: &str) {
        let named = self.named(name);
        named.drafts[gateway] = None;
        named.journaled[gateway] = None;
    }

    /// A call says that all changes which came before it are safe: "acknowledged is there".
    pub(super) fn note_acknowledged(
        &mut self,
        (gateway, name): (usize, &str),
        serial: u64,
        is_journaled: bool,
    ) {
        let named = self.named(name);
        let Some(draft) = &mut named.drafts[gateway] else {
            named.journaled[gateway] = None;
            return;
        };
        if is_journaled {
            named.journaled[gateway] = Some(draft.clone());
            return;
        }
        let draft = draft.clone();
        let last = named.chain.iter().flatten().next_back();
        let is_found = last.is_some_and(|last| {
            // The answer was lost, and then the object was looked at.
            let is_own = last.by == (gateway, draft.number);
            is_own && draft.applied(&last.bytes).contains(&last.bytes.to_vec())
        });
        let Some(draft) = named.drafts[gateway].as_mut() else {
            return;
        };
        let is_before = |edit: &Edit| edit.serial < serial;
        let left = draft.edits.iter().filter(|edit| is_before(edit));
        let left: Vec<String> = left
            .filter(|edit| edit.is_certain)
            .map(|edit| shown(&edit.what))
            .collect();
        draft.edits.retain(|edit| !is_before(edit));
        if draft.edits.is_empty() {
            named.drafts[gateway] = None;
            named.journaled[gateway] = None;
        }
        if !left.is_empty() && !is_found {
            let left = left.join(", ");
            self.fail(format!("{name}: acknowledged, and not there: {left}"));
        }
    }

    /// All files of a gateway are safe.
    pub(super) fn note_all_acknowledged(&mut self, gateway: usize, serial: u64) {
        let names: Vec<String> = self.named.keys().cloned().collect();
        for name in names {
            let draft = &self.named(&name).drafts[gateway];
            // The next caller of that file learns of it.
            if draft.as_ref().is_some_and(|draft| !draft.is_doubtful) {
                self.note_acknowledged((gateway, &name), serial, false);
            }
        }
    }

    /// A sync has failed: more files may have lost their changes than it says.
    pub(super) fn doubt(&mut self, gateway: usize) {
        for named in self.named.values_mut() {
            if let Some(draft) = &mut named.drafts[gateway] {
                draft.is_doubtful = true;
            }
        }
    }

    /// A gateway says that it has kept the changes of a file here, as they cannot be sent.
    pub(super) fn note_conflict(&mut self, gateway: usize, name: &str, path: &Path) {
        let file = path.file_name().unwrap_or_default();
        if !self.kept.insert((gateway, file.to_owned())) {
            return;
        }
        self.log(format!("  {gateway} has a conflict of {name}"));
        let kept = match std::fs::read(path) {
            Ok(kept) => kept,
            Err(error) => {
                self.fail(format!("{}: {error}", path.display()));
                return;
            }
        };
        let is_faulty = self.is_faulty;
        let named = self.named(name);
        named.journaled[gateway] = None;
        let Some(draft) = named.drafts[gateway].take() else {
            return;
        };
        let last = named.chain.last().and_then(Option::as_ref);
        let is_own = last.is_some_and(|last| last.by == (gateway, draft.number));
        let is_known = last.is_some_and(|last| {
            let known = &named.seen[gateway][..draft.known.min(named.seen[gateway].len())];
            known.last() == Some(&last.tag) || last.by == (gateway, draft.number)
        });
        let is_there =
            |(at, byte): (usize, &Option<u8>)| byte.is_none_or(|byte| kept.get(at) == Some(&byte));
        let is_kept = [false, true].into_iter().any(|with_all| {
            let written = draft.written(with_all);
            written.iter().enumerate().all(is_there)
        });
        if is_own || is_known && !is_faulty {
            self.fail(format!(
                "{name}: a conflict with what the change is based on"
            ));
        }
        if !is_kept {
            self.fail(format!("{name}: of a conflict not all bytes are kept"));
        }
    }

    /// A program has read this: "one version".
    pub(super) fn note_read(
        &mut self,
        (gateway, name): (usize, &str),
        (bytes, is_open): (&[u8], bool),
    ) {
        let named = self.named(name);
        let seen = &named.seen[gateway];
        let versions = if is_open {
            &seen[..]
        } else {
            &seen[seen.len().saturating_sub(1)..]
        };
        let mut versions = versions.iter().filter_map(|tag| named.bytes(tag));
        let is_version = versions.any(|version| **version == *bytes);
        let draft = named.drafts[gateway].as_ref();
        let is_draft = draft.is_some_and(|draft| {
            let bases = named.bases(gateway, draft).into_iter();
            let mut contents = bases.flat_map(|base| draft.applied(base));
            contents.any(|content| content == bytes)
        });
        let may_be_version = draft.is_none_or(|draft| !draft.is_certain() || draft.is_doubtful);
        if is_draft || may_be_version && is_version {
            return;
        }
        let edits = draft.map_or_else(Vec::new, |draft| {
            draft.edits.iter().map(|edit| shown(&edit.what)).collect()
        });
        let is_old = named
            .chain
            .iter()
            .flatten()
            .any(|made| *made.bytes == *bytes);
        let text = format!(
            "{name}: {gateway} has read {} bytes, which are none of {seen:?} with {edits:?}; \
             an old version: {is_old}",
            bytes.len()
        );
        self.fail(text);
    }

    /// A gateway was killed, or has ended and left what it could not send.
    pub(super) fn restart(&mut self, gateway: usize, is_killed: bool) {
        for named in self.named.values_mut() {
            if !is_killed {
                named.journaled[gateway] = named.drafts[gateway].clone();
            }
            named.drafts[gateway] = named.journaled[gateway].clone();
            named.is_creating[gateway] = false;
            named.comes_from[gateway] = None;
        }
    }
}

fn tag_of(version: &Version) -> String {
    version.etag.clone().unwrap_or_default()
}

fn shown(what: &What) -> String {
    match what {
        What::Begin => "made".to_owned(),
        What::Write(offset, data) => format!("{offset}+{}", data.len()),
        What::Cut(size) => format!("cut to {size}"),
    }
}
