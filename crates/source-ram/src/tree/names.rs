//! Names: finding, listing, making, removing and moving them.
//!
//! A directory without a name stays empty. Each hold is counted under the lock of the inode, so an
//! unlink sees it or comes first. The call that takes the last name or hold buries the object.
//!
//! Renames work as rename(2) and renameat2(2). The order of refusals is Linux's: no such name; the
//! new one exists; a directory into its own sub-tree; over an ancestor; two names of one object
//! (done, nothing changes); permission; types; not empty.

use std::sync::Arc;

use pagewell_fs::access::{self, EXECUTE, READ, WRITE};
use pagewell_fs::{
    Attributes, Call, Change, CreateMode, Created, Credentials, DirectoryEntry, DirectoryPage,
    Entry, Error, FileId, FileType, NodeKind, Opened, RenameMode, Result, SetAttributes, name,
};

use super::Tree;
use crate::data::{FileData, Pages};
use crate::directory::{COOKIE_PARENT, COOKIE_SELF, Directory, Named};
use crate::inode::{Body, Inode, InodeState};
use crate::permission::{self, MODE_SET_GID, MODE_SET_UID, check_delete, check_mode, permit};
use crate::quota::name_charge;
use crate::{LINKS_MAX, MODE_BITS, setattr};

/// Entries copied out of a directory under its lock at once: about a page of a listing, and no long
/// wait.
const CHUNK_ENTRIES: usize = 128;

/// Modes of objects made without one.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const SYMLINK_MODE: u32 = 0o777;
/// Until an exclusive create's attributes come, no other user gets at the file.
const EXCLUSIVE_MODE: u32 = 0o600;

/// Longest target of a symbolic link, as on Linux (`PATH_MAX` without the NUL).
const TARGET_BYTES_MAX: usize = 4095;

struct New {
    body: Body,
    /// Unless the request has one.
    default_mode: u32,
    request: SetAttributes,
    /// Of an exclusive create.
    verifier: Option<[u8; 8]>,
}

/// The locked directories of a rename, which may be one.
struct Directories<'a> {
    from: &'a mut InodeState,
    to: Option<&'a mut InodeState>,
}

impl Directories<'_> {
    fn to(&self) -> &InodeState {
        self.to.as_deref().unwrap_or(self.from)
    }

    fn to_mut(&mut self) -> &mut InodeState {
        self.to.as_deref_mut().unwrap_or(self.from)
    }
}

impl Tree {
    pub(crate) fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        name::check(name)?;
        let inode = self.inode(directory)?;
        loop {
            let number = {
                let state = inode.read()?;
                let directory = state.directory()?;
                check_mode(call.credentials, &state.metadata, EXECUTE)?;
                match name {
                    b"." => return Ok(self.entry_of(state.attributes())),
                    b".." => state.living_directory()?.parent,
                    _ => directory.find(name).ok_or(Error::NotFound)?,
                }
            };
            // Another thread has just replaced or removed what the name meant: each round follows
            // such a change.
            match self.entry_numbered(number) {
                Err(Error::Stale) => {}
                found => return found,
            }
        }
    }

    fn entry_numbered(&self, number: u64) -> Result<Entry> {
        let inode = self.numbered(number)?;
        let state = inode.read()?;
        Ok(self.entry_of(state.attributes()))
    }

    pub(crate) fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        mut cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        loop {
            let (chunk, attributes) = self.chunk(call.credentials, directory, cookie)?;
            let page = |end| DirectoryPage {
                attributes,
                end,
                unusable: 0,
            };
            // A caller that may not look the names up does not get what they mean.
            let searchable = access::allows(call.credentials, &attributes, EXECUTE);
            let wanted = with_attributes && searchable;
            for named in &chunk {
                let entry = wanted.then(|| self.entry_numbered(named.number).ok());
                cookie = named.cookie;
                let taken = visit(&DirectoryEntry {
                    name: &named.name,
                    file_id: named.number,
                    cookie,
                    entry: entry.flatten(),
                });
                if !taken {
                    return Ok(page(false));
                }
            }
            if chunk.len() < CHUNK_ENTRIES {
                return Ok(page(true));
            }
        }
    }

    /// The next entries after the cookie, `.` and `..` first, and the directory's attributes.
    fn chunk(
        &self,
        credentials: &Credentials,
        directory: &FileId,
        cookie: u64,
    ) -> Result<(Vec<Named>, Attributes)> {
        let inode = self.inode(directory)?;
        let state = inode.read()?;
        let directory = state.directory()?;
        check_mode(credentials, &state.metadata, READ)?;
        let dots = [
            (COOKIE_SELF, &b"."[..], inode.number),
            (COOKIE_PARENT, b"..", directory.parent),
        ];
        let mut entries: Vec<Named> = dots
            .into_iter()
            .filter(|(at, ..)| *at > cookie)
            .map(|(cookie, name, number)| Named {
                cookie,
                name: name.into(),
                number,
            })
            .collect();
        entries.extend(directory.after(cookie, CHUNK_ENTRIES - entries.len()));
        Ok((entries, state.attributes()))
    }

    pub(crate) fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        name::check_new(name)?;
        let (request, default_mode, verifier) = match mode {
            CreateMode::Unchecked(request) | CreateMode::Guarded(request) => {
                (*request, FILE_MODE, None)
            }
            CreateMode::Exclusive(verifier) => {
                (SetAttributes::default(), EXCLUSIVE_MODE, Some(*verifier))
            }
        };
        setattr::check_values(&request)?;
        let new = New {
            body: Body::Regular(FileData::default()),
            default_mode,
            request,
            verifier,
        };
        // Dropped after the lock.
        let mut discarded = Pages::default();
        let _tree = self.lock_names();
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        match existing {
            Some(number) => self.reuse(call.credentials, &parent, (number, mode), &mut discarded),
            None => self.make(call.credentials, &parent, name, new),
        }
    }

    /// `discarded` is to be dropped when no lock is held.
    fn reuse(
        &self,
        credentials: &Credentials,
        parent: &Inode,
        (number, mode): (u64, &CreateMode),
        discarded: &mut Pages,
    ) -> Result<Created> {
        let object = self.numbered(number)?;
        let mut state = object.write()?;
        match mode {
            CreateMode::Exclusive(verifier) if state.verifier == Some(*verifier) => {}
            CreateMode::Unchecked(request) if matches!(state.body, Body::Regular(_)) => {
                let request = SetAttributes {
                    size: request.size,
                    ..SetAttributes::default()
                };
                *discarded = setattr::set(credentials, &mut state, &request, &self.storage)?;
            }
            _ => return Err(Error::Exists),
        }
        let entry = self.entry_of(state.attributes());
        drop(state);
        let parent = parent.no_change()?;
        Ok(Created { entry, parent })
    }

    pub(crate) fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        request: &SetAttributes,
    ) -> Result<Created> {
        // It gets its parent when it is put there.
        let body = Body::Directory(Box::new(Directory::new(0)));
        self.make_new(call, directory, name, body, DIRECTORY_MODE, *request)
    }

    pub(crate) fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        request: &SetAttributes,
    ) -> Result<Created> {
        name::check_new(name)?;
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        let body = Body::Symlink(target.into());
        let request = SetAttributes {
            mode: None,
            ..*request
        };
        self.make_new(call, directory, name, body, SYMLINK_MODE, request)
    }

    pub(crate) fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        request: &SetAttributes,
    ) -> Result<Created> {
        let (file_type, device) = match kind {
            NodeKind::CharacterDevice(major, minor) => (FileType::CharacterDevice, (major, minor)),
            NodeKind::BlockDevice(major, minor) => (FileType::BlockDevice, (major, minor)),
            NodeKind::Socket => (FileType::Socket, (0, 0)),
            NodeKind::Fifo => (FileType::Fifo, (0, 0)),
        };
        let body = Body::Special(file_type, device);
        self.make_new(call, directory, name, body, FILE_MODE, *request)
    }

    fn make_new(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        body: Body,
        default_mode: u32,
        request: SetAttributes,
    ) -> Result<Created> {
        name::check_new(name)?;
        let _tree = self.lock_names();
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        permit(existing.is_none(), Error::Exists)?;
        let new = New {
            body,
            default_mode,
            request,
            verifier: None,
        };
        self.make(call.credentials, &parent, name, new)
    }

    /// What `name` means in a directory. To be called with the tree locked.
    pub(crate) fn place(
        &self,
        credentials: &Credentials,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Arc<Inode>, Option<u64>)> {
        let inode = self.inode(directory)?;
        let found = {
            let state = inode.read()?;
            let directory = state.living_directory()?;
            check_mode(credentials, &state.metadata, EXECUTE)?;
            directory.find(name)
        };
        Ok((inode, found))
    }

    /// Leaves out an owner or a group that the caller may not give: clients send them unasked.
    fn newborn(
        &self,
        credentials: &Credentials,
        directory: &Attributes,
        new: New,
    ) -> Result<InodeState> {
        let (request, is_root) = (new.request, credentials.uid == 0);
        let inherited = directory.mode & MODE_SET_GID;
        let gid = if inherited == 0 {
            credentials.gid
        } else {
            directory.gid
        };
        let mode = request.mode.unwrap_or(new.default_mode) & MODE_BITS;
        let mut state = InodeState::new(new.body, mode, credentials.uid, gid);
        let file_type = state.metadata.file_type;
        match file_type {
            FileType::Directory if directory.link_count >= LINKS_MAX => {
                return Err(Error::TooManyLinks);
            }
            FileType::CharacterDevice | FileType::BlockDevice if !is_root => {
                return Err(Error::NotPermitted);
            }
            FileType::Regular => {}
            _ if request.size.is_some_and(|size| size != 0) => return Err(Error::Invalid),
            _ => {}
        }
        let first_mode = permission::mode_at_birth(credentials, directory, file_type, mode);
        state.metadata.mode = first_mode;
        let uid = request
            .uid
            .filter(|uid| is_root && *uid != credentials.uid && *uid != u32::MAX);
        let gid = request
            .gid
            .filter(|new| *new != gid && *new != u32::MAX)
            .filter(|new| is_root || credentials.in_group(*new));
        let size = request.size.filter(|size| *size != 0);
        // A change of owner or size takes set-user-id away, and mkdir(2) does not give it.
        let again = file_type.is_directory() || uid.is_some() || gid.is_some() || size.is_some();
        let special = mode & (MODE_SET_UID | MODE_SET_GID) != 0;
        let request = SetAttributes {
            mode: (special && again).then_some(mode | first_mode & MODE_SET_GID),
            uid,
            gid,
            size,
            ..request
        };
        let _nothing_cut = setattr::set(credentials, &mut state, &request, &self.storage)?;
        state.verifier = new.verifier;
        Ok(state)
    }

    fn make(
        &self,
        credentials: &Credentials,
        parent: &Inode,
        name: &[u8],
        new: New,
    ) -> Result<Created> {
        let mut directory = parent.write()?;
        check_mode(credentials, &directory.metadata, WRITE | EXECUTE)?;
        let mut state = self.newborn(credentials, &directory.metadata, new)?;
        let charge = name_charge(name) + state.charge();
        self.storage.quota.take(charge)?;
        let before = directory.wcc();
        if let Body::Directory(new) = &mut state.body {
            new.parent = parent.number;
            directory.metadata.link_count += 1;
        }
        let made = self.insert(state);
        directory.directory_mut()?.insert(name, made.file_id);
        directory.touch_modified();
        Ok(Created {
            entry: self.entry_of(made),
            parent: directory.change_since(before),
        })
    }

    pub(crate) fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        name::check_new(name)?;
        let _tree = self.lock_names();
        let object = self.inode(id)?;
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        permit(existing.is_none(), Error::Exists)?;
        let mut directory = parent.write()?;
        check_mode(call.credentials, &directory.metadata, WRITE | EXECUTE)?;
        if object.is_directory {
            return Err(Error::NotPermitted);
        }
        let mut state = object.write()?;
        if state.metadata.link_count == 0 {
            return Err(Error::NotFound); // open, and without a name for good
        }
        if state.metadata.link_count >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        self.storage.quota.take(name_charge(name))?;
        let before = directory.wcc();
        state.metadata.link_count += 1;
        state.touch_changed();
        directory.directory_mut()?.insert(name, object.number);
        directory.touch_modified();
        Ok((state.attributes(), directory.change_since(before)))
    }

    pub(crate) fn remove(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
    ) -> Result<Change> {
        self.remove_if(call, directory, name, false)
    }

    pub(crate) fn remove_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
    ) -> Result<Change> {
        self.remove_if(call, directory, name, true)
    }

    fn remove_if(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<Change> {
        let credentials = call.credentials;
        name::check_old(name)?;
        let tree = self.lock_names();
        let (parent, found) = self.place(credentials, directory, name)?;
        let object = self.numbered(found.ok_or(Error::NotFound)?)?;
        let mut directory = parent.write()?;
        let mut state = object.write()?;
        check_delete(credentials, &directory.metadata, &state.metadata)?;
        match (is_directory, object.is_directory) {
            (false, true) => return Err(Error::IsDirectory),
            (true, false) => return Err(Error::NotDirectory),
            _ => {}
        }
        refuse_full_directory(&state)?;
        let before = directory.wcc();
        directory.directory_mut()?.remove(name);
        self.storage.quota.give(name_charge(name));
        if is_directory {
            directory.metadata.link_count -= 1;
        }
        directory.touch_modified();
        let change = directory.change_since(before);
        let buried = self.unlink(&mut state);
        drop((directory, state, tree));
        self.free(buried);
        Ok(change)
    }

    /// Counts one name less (a directory has but one), and buries the object if it may be.
    pub(crate) fn unlink(&self, state: &mut InodeState) -> Option<Body> {
        state.touch_changed();
        if state.metadata.file_type.is_directory() {
            state.metadata.link_count = 0;
        } else {
            state.metadata.link_count -= 1;
        }
        self.bury_unused(state)
    }

    /// Returns the body for [`Tree::free`].
    fn bury_unused(&self, state: &mut InodeState) -> Option<Body> {
        if state.metadata.link_count > 0 || state.holds > 0 {
            return None;
        }
        self.table.remove(state.metadata.file_id);
        Some(state.bury(&self.storage.quota))
    }

    /// Frees perhaps the pages of a big file. To be called without locks.
    pub(crate) fn free(&self, buried: Option<Body>) {
        drop(buried);
        self.table.trim_if_due();
    }

    pub(crate) fn open(self: &Arc<Self>, _call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        state.holds += 1;
        let attributes = state.attributes();
        drop(state);
        Ok(Opened {
            hold: Some(self.held(inode)),
            ..Opened::plain(attributes)
        })
    }

    pub(crate) fn hold(
        self: &Arc<Self>,
        _call: &Call<'_>,
        id: &FileId,
    ) -> Result<Option<pagewell_fs::Hold>> {
        let inode = self.inode(id)?;
        inode.write()?.holds += 1;
        Ok(Some(self.held(inode)))
    }

    fn held(self: &Arc<Self>, inode: Arc<Inode>) -> pagewell_fs::Hold {
        let tree = self.clone();
        Box::new(Hold { inode, tree })
    }

    pub(crate) fn rename(
        &self,
        call: &Call<'_>,
        (from_directory, from_name): (&FileId, &[u8]),
        (to_directory, to_name): (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        let credentials = call.credentials;
        name::check_old(from_name)?;
        name::check_old(to_name)?;
        let tree = self.lock_names();
        let (from, source) = self.place(credentials, from_directory, from_name)?;
        let (to, target) = self.place(credentials, to_directory, to_name)?;
        let source = self.numbered(source.ok_or(Error::NotFound)?)?;
        let target = target.map(|number| self.numbered(number)).transpose()?;
        let exchanges = mode == RenameMode::Exchange;
        permit(
            mode != RenameMode::NoReplace || target.is_none(),
            Error::Exists,
        )?;
        permit(!exchanges || target.is_some(), Error::NotFound)?;
        if from.number != to.number {
            if source.is_directory && self.is_within(&to, source.number)? {
                return Err(Error::Invalid);
            }
            if let Some(target) = &target
                && target.is_directory
                && self.is_within(&from, target.number)?
            {
                return Err(match exchanges {
                    true => Error::Invalid,
                    false => Error::NotEmpty,
                });
            }
        }
        if let Some(target) = &target
            && target.number == source.number
        {
            return Ok((from.no_change()?, to.no_change()?));
        }
        let places = [(&*from, from_name), (&*to, to_name)];
        let objects = (&*source, target.as_deref());
        let (changes, buried) = self.move_name(credentials, places, objects, exchanges)?;
        drop(tree);
        self.free(buried);
        Ok(changes)
    }

    /// The tree is locked, so the way up does not change.
    fn is_within(&self, directory: &Arc<Inode>, ancestor: u64) -> Result<bool> {
        let mut at = directory.clone();
        loop {
            if at.number == ancestor {
                return Ok(true);
            }
            let parent = at.read()?.directory()?.parent;
            if parent == at.number {
                return Ok(false);
            }
            at = self.numbered(parent)?;
        }
    }

    /// The move itself. Neither source nor target is one of the directories. Returns what is to be
    /// dropped when no lock is held.
    fn move_name(
        &self,
        credentials: &Credentials,
        [(from, from_name), (to, to_name)]: [(&Inode, &[u8]); 2],
        (source, target): (&Inode, Option<&Inode>),
        exchanges: bool,
    ) -> Result<((Change, Change), Option<Body>)> {
        let mut from_state = from.write()?;
        let other = (from.number != to.number).then(|| to.write());
        let mut to_state = other.transpose()?;
        let mut directories = Directories {
            from: &mut from_state,
            to: to_state.as_deref_mut(),
        };
        let mut source_state = source.write()?;
        let mut target_state = target.map(Inode::write).transpose()?;
        let replaced = target_state.as_deref();
        let objects = (&*source_state, replaced);
        check(credentials, &directories, objects, exchanges)?;
        let from_before = directories.from.wcc();
        let to_before = directories.to().wcc();
        match target.filter(|_| exchanges) {
            Some(target) => {
                let entries = directories.from.directory_mut()?;
                entries.insert(from_name, target.number);
            }
            None => {
                let new = target.map_or(name_charge(to_name), |_| 0);
                self.storage.quota.exchange(name_charge(from_name), new)?;
                directories.from.directory_mut()?.remove(from_name);
            }
        }
        let entries = directories.to_mut().directory_mut()?;
        entries.insert(to_name, source.number);
        if source.is_directory {
            directories.from.metadata.link_count -= 1;
            directories.to_mut().metadata.link_count += 1;
            source_state.directory_mut()?.parent = to.number;
        }
        source_state.touch_changed();
        let mut buried = None;
        if let (Some(target), Some(state)) = (target, &mut target_state) {
            if target.is_directory {
                directories.to_mut().metadata.link_count -= 1;
            }
            if exchanges && target.is_directory {
                directories.from.metadata.link_count += 1;
                state.directory_mut()?.parent = from.number;
            }
            if exchanges {
                state.touch_changed();
            } else {
                buried = self.unlink(state);
            }
        }
        directories.from.touch_modified();
        if let Some(to_state) = &mut directories.to {
            to_state.touch_modified();
        }
        let from_change = directories.from.change_since(from_before);
        let to_change = directories.to().change_since(to_before);
        Ok(((from_change, to_change), buried))
    }
}

struct Hold {
    inode: Arc<Inode>,
    tree: Arc<Tree>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.inode.lock();
        state.holds -= 1;
        let buried = self.tree.bury_unused(&mut state);
        drop(state);
        if buried.is_some() {
            self.tree.free(buried);
        }
    }
}

pub(crate) fn refuse_full_directory(state: &InodeState) -> Result<()> {
    let is_full = matches!(&state.body, Body::Directory(directory) if !directory.is_empty());
    permit(!is_full, Error::NotEmpty)
}

/// Refuses what the caller may not do, and what cannot replace what.
fn check(
    credentials: &Credentials,
    directories: &Directories<'_>,
    (source, target): (&InodeState, Option<&InodeState>),
    exchanges: bool,
) -> Result<()> {
    let (from, to) = (&directories.from.metadata, &directories.to().metadata);
    check_delete(credentials, from, &source.metadata)?;
    match target {
        None => check_mode(credentials, to, WRITE | EXECUTE)?,
        Some(target) => check_delete(credentials, to, &target.metadata)?,
    }
    let is_directory = |state: &InodeState| state.metadata.file_type.is_directory();
    let moved = is_directory(source);
    let replaced = target.map(is_directory);
    match (moved, replaced) {
        (true, Some(false)) if !exchanges => return Err(Error::NotDirectory),
        (false, Some(true)) if !exchanges => return Err(Error::IsDirectory),
        _ => {}
    }
    if directories.to.is_some() {
        let both = [Some(source), target.filter(|_| exchanges)].into_iter();
        for moved in both.flatten().filter(|state| is_directory(state)) {
            // Its `..` changes, which is a write to it.
            check_mode(credentials, &moved.metadata, WRITE)?;
        }
        let gains = match (moved, replaced) {
            (true, None | Some(false)) => Some(to),
            (false, Some(true)) => Some(from),
            _ => None,
        };
        if gains.is_some_and(|directory| directory.link_count >= LINKS_MAX) {
            return Err(Error::TooManyLinks);
        }
    }
    match target.filter(|_| !exchanges) {
        Some(target) => refuse_full_directory(target),
        None => Ok(()),
    }
}
