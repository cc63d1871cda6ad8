//! The reference: what a POSIX directory does, in the plainest way.
//!
//! Each operation gives what must come out: a value, or the errors of which one must come. More
//! than one error is acceptable only where several reasons apply at once and no rule says which
//! comes first.

use std::collections::BTreeMap;

use pagewell_fs::{
    Access, Attributes, Credentials, Error, FileType, SetAttributes, SetTime, Timestamp,
};

use crate::object::{Body, Content, Known, Object, PAST};
use crate::rules::{self, EXECUTE, READ, WRITE};

/// What must come out.
pub(crate) type Expected<T> = Result<T, Vec<Error>>;

/// The object an operation names: its number in the model, or none for a malformed identifier.
pub(crate) type Named = Option<usize>;

/// How kinds of file systems may differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// Only owners, or those who may read and write a plain file, may link it (the sysctl
    /// `fs.protected_hardlinks`).
    pub(crate) links_protected: bool,
    /// Reading a file may move its access time.
    pub(crate) reads_move_accessed: bool,
    /// `before` of a change is there when nobody else changes the object.
    pub(crate) before_always: bool,
    /// A call that may not block is always answered.
    pub(crate) never_blocks: bool,
    /// An object always has the same identifier; otherwise all it ever had stay valid.
    pub(crate) identifiers_stay: bool,
    /// The verifier of an exclusive create is kept in the times of the file.
    pub(crate) verifier_in_times: bool,
    pub(crate) file_bytes_max: u64,
}

/// How a file is to be created.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Unchecked(SetAttributes),
    Guarded(SetAttributes),
    Exclusive([u8; 8]),
}

/// All objects that ever were; number 0 is the root.
pub(crate) struct Model {
    pub(crate) traits: Traits,
    pub(crate) objects: Vec<Object>,
    /// No time that the file system takes from its clock is before this.
    pub(crate) start: Timestamp,
}

pub(crate) fn refuse<T>(error: Error) -> Expected<T> {
    Err(vec![error])
}

impl Model {
    pub(crate) fn new(traits: Traits, mode: u32, uid: u32, gid: u32, start: Timestamp) -> Self {
        let entries = BTreeMap::new();
        let mut root = Object::new(
            Body::Directory { parent: 0, entries },
            mode,
            uid,
            gid,
            start,
        );
        root.changed = Known::NotBefore(PAST);
        root.forget_times();
        Self {
            traits,
            objects: vec![root],
            start,
        }
    }

    pub(crate) fn live(&self, named: Named) -> Expected<usize> {
        match named {
            None => refuse(Error::BadId),
            Some(number) if !self.objects[number].alive() => refuse(Error::Stale),
            Some(number) => Ok(number),
        }
    }

    pub(crate) fn entries(&self, directory: usize) -> &BTreeMap<Vec<u8>, usize> {
        match &self.objects[directory].body {
            Body::Directory { entries, .. } => entries,
            _ => panic!("{directory} is no directory"),
        }
    }

    pub(crate) fn entries_mut(&mut self, directory: usize) -> &mut BTreeMap<Vec<u8>, usize> {
        match &mut self.objects[directory].body {
            Body::Directory { entries, .. } => entries,
            _ => panic!("{directory} is no directory"),
        }
    }

    pub(crate) fn parent(&self, directory: usize) -> usize {
        match self.objects[directory].body {
            Body::Directory { parent, .. } => parent,
            _ => panic!("{directory} is no directory"),
        }
    }

    /// Goes into a directory to use a name there.
    pub(crate) fn enter(
        &self,
        who: &Credentials,
        named: Named,
        name: Expected<()>,
    ) -> Expected<usize> {
        let mut errors = name.err().unwrap_or_default();
        match self.live(named) {
            Err(more) => errors.extend(more),
            Ok(number) if !self.objects[number].is_directory() => errors.push(Error::NotDirectory),
            Ok(number) if !rules::allows(who, &self.objects[number], EXECUTE) => {
                errors.push(Error::AccessDenied);
            }
            Ok(number) if errors.is_empty() => return Ok(number),
            Ok(_) => {}
        }
        Err(errors)
    }

    pub(crate) fn may_write_directory(&self, who: &Credentials, directory: usize) -> Expected<()> {
        if rules::allows(who, &self.objects[directory], WRITE | EXECUTE) {
            Ok(())
        } else {
            refuse(Error::AccessDenied)
        }
    }

    pub(crate) fn lookup(&self, who: &Credentials, named: Named, name: &[u8]) -> Expected<usize> {
        let directory = self.enter(who, named, rules::any_name(name))?;
        match name {
            b"." => Ok(directory),
            b".." => Ok(self.parent(directory)),
            _ => match self.entries(directory).get(name) {
                Some(number) => Ok(*number),
                None => refuse(Error::NotFound),
            },
        }
    }

    pub(crate) fn access(
        &self,
        who: &Credentials,
        named: Named,
        wanted: Access,
    ) -> Expected<Access> {
        let object = &self.objects[self.live(named)?];
        let kinds: &[(Access, u32)] = if object.is_directory() {
            &[
                (Access::READ, READ),
                (Access::LOOKUP, EXECUTE),
                (Access::MODIFY, WRITE | EXECUTE),
                (Access::EXTEND, WRITE | EXECUTE),
                (Access::DELETE, WRITE | EXECUTE),
            ]
        } else {
            &[
                (Access::READ, READ),
                (Access::MODIFY, WRITE),
                (Access::EXTEND, WRITE),
                (Access::EXECUTE, EXECUTE),
            ]
        };
        let mut granted = Access(0);
        for (kind, bits) in kinds {
            if wanted.intersects(*kind) && rules::allows(who, object, *bits) {
                granted = granted | *kind;
            }
        }
        Ok(granted)
    }

    /// A regular file whose data is to be used.
    fn file(&self, named: Named) -> Expected<usize> {
        let number = self.live(named)?;
        match self.objects[number].file_type() {
            FileType::Regular => Ok(number),
            FileType::Directory => refuse(Error::IsDirectory),
            _ => refuse(Error::Invalid),
        }
    }

    pub(crate) fn content(&self, number: usize) -> &Content {
        match &self.objects[number].body {
            Body::Regular(content) => content,
            _ => panic!("{number} is no file"),
        }
    }

    pub(crate) fn read(
        &mut self,
        who: &Credentials,
        named: Named,
        offset: u64,
        count: u32,
    ) -> Expected<(Vec<u8>, bool)> {
        let number = self.file(named)?;
        let object = &self.objects[number];
        let allowed = who.uid == object.uid
            || rules::allows(who, object, READ)
            || rules::allows(who, object, EXECUTE);
        if !allowed {
            return refuse(Error::AccessDenied);
        }
        let content = self.content(number);
        let end = offset.saturating_add(count.into()) >= content.size;
        let bytes = content.read(offset, count);
        self.note_read(number);
        Ok((bytes, end))
    }

    /// Compares an object with what the file system says of it. Where reading moves the access
    /// time, so may the file system's own looks into directories: then what was set is compared
    /// once.
    pub(crate) fn meet(&mut self, number: usize, seen: &Attributes) {
        self.objects[number].meet(seen);
        if self.traits.reads_move_accessed {
            self.objects[number].accessed = Known::NotBefore(PAST);
        }
    }

    /// Reading may have moved the access time.
    pub(crate) fn note_read(&mut self, number: usize) {
        if self.traits.reads_move_accessed {
            let object = &mut self.objects[number];
            object.accessed = Known::NotBefore(PAST);
            object.past_verifier = object.past_verifier.or(object.verifier);
        }
    }

    pub(crate) fn write(
        &mut self,
        who: &Credentials,
        named: Named,
        offset: u64,
        data: &[u8],
    ) -> Expected<()> {
        let number = self.file(named)?;
        let object = &mut self.objects[number];
        let mut errors = Vec::new();
        if who.uid != object.uid && !rules::allows(who, object, WRITE) {
            errors.push(Error::AccessDenied);
        }
        if !data.is_empty() && offset >= self.traits.file_bytes_max {
            errors.push(Error::FileTooLarge);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if data.is_empty() {
            return Ok(());
        }
        rules::drop_privileges_after_write(who, object);
        object.touch_modified(self.start);
        object.past_verifier = object.past_verifier.or(object.verifier);
        if let Body::Regular(content) = &mut object.body {
            content.write(offset, data);
        }
        Ok(())
    }

    pub(crate) fn commit(&self, named: Named) -> Expected<usize> {
        self.file(named)
    }

    pub(crate) fn read_link(&self, named: Named) -> Expected<Vec<u8>> {
        match &self.objects[self.live(named)?].body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => refuse(Error::Invalid),
        }
    }

    pub(crate) fn set_attributes(
        &mut self,
        who: &Credentials,
        named: Named,
        request: &SetAttributes,
        guard_matches: bool,
    ) -> Expected<()> {
        let number = self.live(named)?;
        let object = &self.objects[number];
        let mut errors = rules::set_refusals(who, object, request, self.traits.file_bytes_max);
        if !guard_matches {
            errors.push(Error::NotSync);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let start = self.start;
        set(who, &mut self.objects[number], request, start);
        Ok(())
    }

    pub(crate) fn read_directory(&mut self, who: &Credentials, named: Named) -> Expected<usize> {
        let number = self.live(named)?;
        let object = &self.objects[number];
        if !object.is_directory() {
            return refuse(Error::NotDirectory);
        }
        if !rules::allows(who, object, READ) {
            return refuse(Error::AccessDenied);
        }
        self.note_read(number);
        Ok(number)
    }
}

/// Sets what was not refused.
pub(crate) fn set(
    who: &Credentials,
    object: &mut Object,
    request: &SetAttributes,
    start: Timestamp,
) {
    if *request == SetAttributes::default() {
        return;
    }
    object.touch_changed();
    object.past_verifier = object.past_verifier.or(object.verifier);
    object.verifier = None;
    if !object.is_directory() && (request.uid.is_some() || request.gid.is_some()) {
        rules::drop_privileges_after_chown(who, object);
    }
    object.uid = request.uid.unwrap_or(object.uid);
    object.gid = request.gid.unwrap_or(object.gid);
    if let Some(size) = request.size {
        rules::drop_privileges_after_write(who, object);
        object.modified = Known::NotBefore(start);
        if let Body::Regular(content) = &mut object.body {
            content.resize(size);
        }
    }
    if let Some(mode) = request.mode {
        object.mode = mode & 0o7777;
        if who.uid != 0 && !who.in_group(object.gid) {
            object.mode &= !0o2000;
        }
    }
    for (how, time) in [
        (request.accessed, &mut object.accessed),
        (request.modified, &mut object.modified),
    ] {
        match how {
            Some(SetTime::To(at)) => *time = Known::Exactly(at),
            Some(SetTime::ToServerTime) => *time = Known::NotBefore(start),
            None => {}
        }
    }
}
