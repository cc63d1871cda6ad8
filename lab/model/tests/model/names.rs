//! The reference, continued: what makes, moves and removes names.

use std::collections::BTreeMap;

use pagewell_fs::{Credentials, Error, FileType, NodeKind, SetAttributes};

use crate::object::{Body, Content, Object};
use crate::reference::{Expected, How, Model, Named, refuse, set};
use crate::rules::{self, WRITE};

impl Model {
    /// Puts a new object under a new name. What cannot apply to its type is left out.
    fn make(
        &mut self,
        who: &Credentials,
        directory: usize,
        name: &[u8],
        body: Body,
        default_mode: u32,
        request: &SetAttributes,
    ) -> Expected<usize> {
        let parent = &self.objects[directory];
        let inherits = parent.mode & 0o2000 != 0;
        let gid = if inherits { parent.gid } else { who.gid };
        let mode = request.mode.unwrap_or(default_mode) & 0o7777;
        let mut object = Object::new(body, mode, who.uid, gid, self.start);
        let foreign_group = inherits && who.uid != 0 && !who.in_group(gid);
        let mut errors = Vec::new();
        match object.file_type() {
            FileType::Symlink => object.mode = 0o777,
            FileType::Directory if inherits => object.mode = mode & 0o1777 | 0o2000,
            FileType::Directory => object.mode = mode & 0o1777,
            _ if foreign_group && mode & 0o010 != 0 => object.mode &= !0o2000,
            _ => {}
        }
        let request = dressing(who, &object, mode, request);
        let limit = self.traits.file_bytes_max;
        errors.extend(rules::set_refusals(who, &object, &request, limit));
        errors.extend(
            self.may_write_directory(who, directory)
                .err()
                .unwrap_or_default(),
        );
        let device = matches!(
            object.file_type(),
            FileType::BlockDevice | FileType::CharacterDevice
        );
        if device && who.uid != 0 {
            errors.push(Error::NotPermitted);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        set(who, &mut object, &request, self.start);
        let number = self.objects.len();
        if object.is_directory() {
            self.objects[directory].links += 1;
        }
        self.objects.push(object);
        self.entries_mut(directory).insert(name.to_vec(), number);
        let start = self.start;
        self.objects[directory].touch_modified(start);
        Ok(number)
    }

    /// Refuses attributes that nothing can have. Whatever else is wrong may come first.
    fn check_values(
        &self,
        who: &Credentials,
        named: Named,
        name: &[u8],
        request: &SetAttributes,
        size_of_no_file: bool,
    ) -> Expected<()> {
        let mut errors = rules::bad_values(request, self.traits.file_bytes_max);
        if size_of_no_file {
            errors.push(Error::Invalid);
        }
        if errors.is_empty() {
            return Ok(());
        }
        errors.extend(self.any_refusal(who, named, name));
        Err(errors)
    }

    /// What may be said instead when an argument alone is reason enough to refuse.
    fn any_refusal(&self, who: &Credentials, named: Named, name: &[u8]) -> Vec<Error> {
        let entered = self.enter(who, named, rules::new_name(name));
        let mut errors = entered.err().unwrap_or_default();
        errors.extend([Error::Exists, Error::AccessDenied, Error::NotPermitted]);
        errors
    }

    fn make_new(
        &mut self,
        who: &Credentials,
        named: Named,
        name: &[u8],
        body: impl FnOnce(usize) -> (Body, u32),
        request: &SetAttributes,
    ) -> Expected<usize> {
        self.check_values(
            who,
            named,
            name,
            request,
            request.size.is_some_and(|size| size > 0),
        )?;
        let directory = self.enter(who, named, rules::new_name(name))?;
        if self.entries(directory).contains_key(name) {
            return refuse(Error::Exists);
        }
        let (body, default_mode) = body(directory);
        self.make(who, directory, name, body, default_mode, request)
    }

    pub(crate) fn create(
        &mut self,
        who: &Credentials,
        named: Named,
        name: &[u8],
        how: &How,
    ) -> Expected<usize> {
        if let How::Unchecked(request) | How::Guarded(request) = how {
            self.check_values(who, named, name, request, false)?;
        }
        let directory = self.enter(who, named, rules::new_name(name))?;
        let Some(existing) = self.entries(directory).get(name).copied() else {
            let (request, mode, verifier) = match how {
                How::Unchecked(request) | How::Guarded(request) => {
                    (*request, rules::FILE_MODE, None)
                }
                How::Exclusive(verifier) => (
                    SetAttributes::default(),
                    rules::EXCLUSIVE_MODE,
                    Some(*verifier),
                ),
            };
            let body = Body::Regular(Content::default());
            let number = self.make(who, directory, name, body, mode, &request)?;
            if verifier.is_some() {
                self.objects[number].verifier = verifier;
                self.objects[number].forget_times(); // a kind may keep the verifier there
            }
            return Ok(number);
        };
        let object = &self.objects[existing];
        match how {
            How::Unchecked(request) if object.file_type() == FileType::Regular => {
                if request.size.is_some() {
                    let request = SetAttributes {
                        size: request.size,
                        ..SetAttributes::default()
                    };
                    self.set_attributes(who, Some(existing), &request, true)?;
                }
                Ok(existing)
            }
            How::Exclusive(verifier) if object.verifier == Some(*verifier) => Ok(existing),
            _ => refuse(Error::Exists),
        }
    }

    /// The file that an exclusive create may find or may refuse, where the verifier is kept in
    /// the times: they move when the file is used, and need not when attributes are set.
    pub(crate) fn uncertain(&self, named: Named, name: &[u8], how: &How) -> Option<usize> {
        let How::Exclusive(verifier) = how else {
            return None;
        };
        let directory = self.live(named).ok()?;
        let Body::Directory { entries, .. } = &self.objects[directory].body else {
            return None;
        };
        let number = *entries.get(name)?;
        let object = &self.objects[number];
        let was_made_so = object.past_verifier == Some(*verifier);
        (self.traits.verifier_in_times && was_made_so).then_some(number)
    }

    pub(crate) fn make_directory(
        &mut self,
        who: &Credentials,
        named: Named,
        name: &[u8],
        request: &SetAttributes,
    ) -> Expected<usize> {
        let body = |parent| {
            let entries = BTreeMap::new();
            (Body::Directory { parent, entries }, rules::DIRECTORY_MODE)
        };
        self.make_new(who, named, name, body, request)
    }

    pub(crate) fn make_symlink(
        &mut self,
        who: &Credentials,
        named: Named,
        name: &[u8],
        target: &[u8],
        request: &SetAttributes,
    ) -> Expected<usize> {
        if target.is_empty() || target.contains(&0) || target.len() > 4095 {
            let mut errors = vec![Error::Invalid, Error::NameTooLong];
            errors.extend(self.any_refusal(who, named, name));
            return Err(errors);
        }
        let body = |_| (Body::Symlink(target.to_vec()), 0o777);
        self.make_new(who, named, name, body, request)
    }

    pub(crate) fn make_node(
        &mut self,
        who: &Credentials,
        named: Named,
        name: &[u8],
        kind: NodeKind,
        request: &SetAttributes,
    ) -> Expected<usize> {
        let (file_type, device) = match kind {
            NodeKind::CharacterDevice(major, minor) => (FileType::CharacterDevice, (major, minor)),
            NodeKind::BlockDevice(major, minor) => (FileType::BlockDevice, (major, minor)),
            NodeKind::Socket => (FileType::Socket, (0, 0)),
            NodeKind::Fifo => (FileType::Fifo, (0, 0)),
        };
        let body = |_| (Body::Node(file_type, device), rules::FILE_MODE);
        self.make_new(who, named, name, body, request)
    }

    pub(crate) fn link(
        &mut self,
        who: &Credentials,
        object: Named,
        named: Named,
        name: &[u8],
    ) -> Expected<(usize, usize)> {
        let entered = self.enter(who, named, rules::new_name(name));
        let (number, directory) = match (self.live(object), entered) {
            (Ok(number), Ok(directory)) => (number, directory),
            (number, directory) => {
                let mut errors = directory.err().unwrap_or_default();
                match number {
                    Ok(number) if self.objects[number].is_directory() => {
                        errors.push(Error::NotPermitted);
                    }
                    Ok(_) => {}
                    Err(more) => errors.extend(more),
                }
                return Err(errors);
            }
        };
        let mut errors = Vec::new();
        if self.entries(directory).contains_key(name) {
            errors.push(Error::Exists);
            if !self.objects[number].is_directory() {
                return Err(errors);
            }
        }
        let source = &self.objects[number];
        let protected = self.traits.links_protected && !rules::may_link(who, source);
        if source.is_directory() || protected {
            errors.push(Error::NotPermitted);
        }
        errors.extend(
            self.may_write_directory(who, directory)
                .err()
                .unwrap_or_default(),
        );
        if !errors.is_empty() {
            return Err(errors);
        }
        self.objects[number].links += 1;
        self.objects[number].touch_changed();
        self.entries_mut(directory).insert(name.to_vec(), number);
        let start = self.start;
        self.objects[directory].touch_modified(start);
        Ok((number, directory))
    }

    /// Refuses to take an entry out of a directory.
    fn may_delete(&self, who: &Credentials, directory: usize, entry: usize) -> Expected<()> {
        self.may_write_directory(who, directory)?;
        let directory = &self.objects[directory];
        let owner = who.uid == 0 || who.uid == directory.uid || who.uid == self.objects[entry].uid;
        if directory.mode & 0o1000 != 0 && !owner {
            return refuse(Error::NotPermitted);
        }
        Ok(())
    }

    /// One name less.
    fn drop_link(&mut self, number: usize) {
        let object = &mut self.objects[number];
        object.links = if object.is_directory() {
            0
        } else {
            object.links - 1
        };
        object.touch_changed();
    }

    pub(crate) fn remove(
        &mut self,
        who: &Credentials,
        named: Named,
        name: &[u8],
        wants_directory: bool,
    ) -> Expected<usize> {
        let directory = self.enter(who, named, rules::old_name(name))?;
        let Some(number) = self.entries(directory).get(name).copied() else {
            return refuse(Error::NotFound);
        };
        self.may_delete(who, directory, number)?;
        let is_directory = self.objects[number].is_directory();
        match (wants_directory, is_directory) {
            (true, false) => return refuse(Error::NotDirectory),
            (false, true) => return refuse(Error::IsDirectory),
            (true, true) if !self.entries(number).is_empty() => return refuse(Error::NotEmpty),
            _ => {}
        }
        self.entries_mut(directory).remove(name);
        if is_directory {
            self.objects[directory].links -= 1;
        }
        self.drop_link(number);
        let start = self.start;
        self.objects[directory].touch_modified(start);
        Ok(directory)
    }

    fn is_within(&self, mut directory: usize, ancestor: usize) -> bool {
        while directory != ancestor {
            let parent = self.parent(directory);
            if parent == directory {
                return false;
            }
            directory = parent;
        }
        true
    }

    fn enter_both(
        &self,
        who: &Credentials,
        from: (Named, &[u8]),
        to: (Named, &[u8]),
    ) -> Expected<(usize, usize)> {
        let left = self.enter(who, from.0, rules::old_name(from.1));
        let right = self.enter(who, to.0, rules::old_name(to.1));
        match (left, right) {
            (Ok(left), Ok(right)) => Ok((left, right)),
            (left, right) => {
                let mut errors = left.err().unwrap_or_default();
                errors.extend(right.err().unwrap_or_default());
                Err(errors)
            }
        }
    }

    pub(crate) fn rename(
        &mut self,
        who: &Credentials,
        from: (Named, &[u8]),
        to: (Named, &[u8]),
    ) -> Expected<(usize, usize)> {
        let (from_directory, to_directory) = self.enter_both(who, from, to)?;
        let (from_name, to_name) = (from.1, to.1);
        let Some(source) = self.entries(from_directory).get(from_name).copied() else {
            return refuse(Error::NotFound);
        };
        let target = self.entries(to_directory).get(to_name).copied();
        let is_directory = self.objects[source].is_directory();
        if is_directory && self.is_within(to_directory, source) {
            return refuse(Error::Invalid);
        }
        let target_is_directory = target.is_some_and(|target| self.objects[target].is_directory());
        if let Some(target) = target
            && target_is_directory
            && self.is_within(from_directory, target)
        {
            return refuse(Error::NotEmpty);
        }
        if target == Some(source) {
            return Ok((from_directory, to_directory));
        }
        self.may_delete(who, from_directory, source)?;
        match target {
            None => self.may_write_directory(who, to_directory)?,
            Some(target) => {
                self.may_delete(who, to_directory, target)?;
                match (is_directory, target_is_directory) {
                    (true, false) => return refuse(Error::NotDirectory),
                    (false, true) => return refuse(Error::IsDirectory),
                    _ => {}
                }
            }
        }
        let moves = from_directory != to_directory;
        if is_directory && moves && !rules::allows(who, &self.objects[source], WRITE) {
            return refuse(Error::AccessDenied);
        }
        if target_is_directory && target.is_some_and(|target| !self.entries(target).is_empty()) {
            return refuse(Error::NotEmpty);
        }
        self.entries_mut(from_directory).remove(from_name);
        self.entries_mut(to_directory)
            .insert(to_name.to_vec(), source);
        if let Some(target) = target {
            self.drop_link(target);
        }
        if is_directory {
            self.objects[from_directory].links -= 1;
            self.objects[to_directory].links += 1;
        }
        if target_is_directory {
            self.objects[to_directory].links -= 1;
        }
        if let Body::Directory { parent, .. } = &mut self.objects[source].body {
            *parent = to_directory;
        }
        self.objects[source].touch_changed();
        let start = self.start;
        self.objects[from_directory].touch_modified(start);
        self.objects[to_directory].touch_modified(start);
        Ok((from_directory, to_directory))
    }
}

/// What is set on a new object after it was made: an owner and a group only as far as the caller
/// may give them; the mode only where something takes special bits away, or did not give them.
fn dressing(
    who: &Credentials,
    object: &Object,
    mode: u32,
    request: &SetAttributes,
) -> SetAttributes {
    let real = |id: &u32| *id != u32::MAX;
    let uid = request
        .uid
        .filter(real)
        .filter(|uid| who.uid == 0 && *uid != 0);
    let member = |gid: &u32| who.uid == 0 || who.in_group(*gid);
    let other = |gid: &u32| *gid != object.gid;
    let gid = request.gid.filter(real).filter(member).filter(other);
    let size = request.size.filter(|size| *size > 0);
    let changes = uid.is_some() || gid.is_some() || size.is_some() || object.is_directory();
    let is_link = object.file_type() == FileType::Symlink;
    let mode = (changes && !is_link && mode & 0o6000 != 0).then_some(mode | object.mode & 0o2000);
    let size = size.filter(|_| object.file_type() == FileType::Regular);
    SetAttributes {
        mode,
        uid,
        gid,
        size,
        ..*request
    }
}
