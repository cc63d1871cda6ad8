//! The attributes of a copy.
//!
//! Without being asked to keep more, a new file has the permissions of its original that the umask
//! leaves, belongs to the user that copies, and has the time of its making; a file that was there
//! keeps what it had. Set-id bits are only given where the owner is that of the original: they must
//! not become those of another user.

use std::borrow::Cow;
use std::ffi::CStr;

use pagewell_fs::{Attributes, Error, FileId, FileSystem, Presence, SetAttributes, SetTime};
use pagewell_source_dir::ExtendedAttribute;

use super::hand::{Hand, Notice};
use super::object::{Object, Original, Trouble, refuse};
use super::rules::Extended;
use super::terms::Terms;

/// What all names of access control lists begin with.
const LIST_PREFIX: &[u8] = b"system.posix_acl_";
const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const DEFAULT_LIST: &CStr = c"system.posix_acl_default";
/// Labels belong to the policy of a machine, not to a file; GNU cp leaves them, too.
const LABEL: &[u8] = b"security.selinux";

/// How the copy came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// For this copy.
    New,
    /// It was there; with the mode to give back to it.
    Before { mode: Option<u32> },
    /// For this copy: a directory, with the bits that it has from the one it is in.
    Directory { inherited: u32 },
}

/// A mode alone.
pub(super) fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

impl Terms {
    /// Owner and times that are kept of an original.
    pub(super) fn kept(&self, original: &Attributes) -> SetAttributes {
        let keep = self.rules.keep;
        let owned = keep.ownership && self.is_root;
        let time = |time| keep.timestamps.then_some(SetTime::To(time));
        SetAttributes {
            uid: owned.then_some(original.uid),
            gid: owned.then_some(original.gid),
            accessed: time(original.accessed),
            modified: time(original.modified),
            ..SetAttributes::default()
        }
    }

    /// The mode of a new object until it is filled: no other user may open it if it will get
    /// another owner.
    pub(super) fn mode_at_first(&self, original: &Attributes) -> u32 {
        let mode = original.mode & 0o777;
        match self.rules.keep {
            keep if keep.ownership => mode & 0o700,
            keep if keep.mode => mode,
            _ => mode & !self.rules.umask,
        }
    }

    /// The mode in the end; nothing when it is right already.
    fn mode_at_last(&self, original: &Attributes, made: Made) -> Option<u32> {
        let keep = self.rules.keep;
        let as_original = original.mode & 0o777 & !self.rules.umask;
        match made {
            _ if keep.mode => Some(self.mode_kept(original)),
            Made::New if keep.ownership => Some(as_original),
            Made::New => None,
            Made::Before { mode } => mode,
            Made::Directory { inherited } => Some(as_original | inherited),
        }
    }

    fn mode_kept(&self, original: &Attributes) -> u32 {
        let owned = self.rules.keep.ownership && self.is_root;
        let mut mode = original.mode & 0o7777;
        if !owned && original.uid != self.target.tree.call().credentials.uid {
            mode &= !0o4000;
        }
        if !owned && original.gid != self.target.tree.call().credentials.gid {
            mode &= !0o2000;
        }
        mode
    }

    /// Removes the access control lists that the original does not have: a new object has those of
    /// its directory, and the mode of the original would let more users in by them.
    fn remove_lists(
        &self,
        original: &Attributes,
        object: &Object,
        extended: &[ExtendedAttribute],
    ) -> Result<(), Error> {
        // One call for each file is saved where none can have lists. Elsewhere it is made also in
        // directories that give none: they may get a list while the copy is under way.
        let Some(local) = self.local().filter(|local| local.has_access_lists()) else {
            return Ok(());
        };
        let of_directory = original.file_type.is_directory().then_some(DEFAULT_LIST);
        for list in std::iter::once(ACCESS_LIST).chain(of_directory) {
            if extended.iter().any(|(name, _)| name.as_c_str() == list) {
                continue;
            }
            let removed = match object {
                Object::Known(id) => {
                    local.remove_extended_attribute(&self.target.tree.call(), id, list)
                }
                Object::Open(file) => rustix::fs::fremovexattr(file, list).map_err(Error::from),
            };
            match removed {
                Ok(()) | Err(Error::NoData | Error::NotSupported) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Hand {
    /// Gives a copy the attributes that are kept.
    pub(super) fn dress(
        &mut self,
        original: &Original<'_>,
        object: &Object,
        made: Made,
    ) -> Result<(), Trouble> {
        let source = &original.entry.attributes;
        let mut attributes = self.terms.kept(source);
        if self.terms.rules.keep.extended != Extended::Nothing {
            // The owner first: changing it takes attributes away that give rights. The mode last:
            // without permission to write there would be none to set attributes.
            let extended = self.extended(original)?;
            if let (Object::Known(id), [_, ..]) = (object, extended.as_slice()) {
                let owner = SetAttributes {
                    uid: attributes.uid.take(),
                    gid: attributes.gid.take(),
                    ..SetAttributes::default()
                };
                self.terms.set(object, &owner)?;
                self.set_extended(id, &extended)?;
            }
            if self.terms.rules.keep.mode {
                self.terms.remove_lists(source, object, &extended)?;
            }
        }
        attributes.mode = self.terms.mode_at_last(source, made);
        Ok(self.terms.set(object, &attributes)?)
    }

    /// The extended attributes of the original that are to be kept, where they are known.
    fn extended(&mut self, original: &Original<'_>) -> Result<Vec<ExtendedAttribute>, Trouble> {
        let lists_only = self.terms.rules.keep.extended == Extended::Lists;
        let place = original.place;
        let Some(local) = &place.tree.local else {
            if place.is_remote {
                let what = "an NFS server does not tell extended attributes and access control \
                            lists: none are kept";
                self.lost(what.into())?;
            }
            return Ok(Vec::new());
        };
        let known = local.extended_attributes(&place.tree.call(), &original.entry.id);
        let mut known = known.map_err(|error| Trouble::Source(error.into()))?;
        known.retain(|(name, _)| {
            let name = name.as_bytes();
            name != LABEL && (!lists_only || name.starts_with(LIST_PREFIX))
        });
        Ok(known)
    }

    fn set_extended(&mut self, id: &FileId, extended: &[ExtendedAttribute]) -> Result<(), Trouble> {
        let terms = self.terms.clone();
        let Some(local) = terms.local() else {
            let what = "the target takes no extended attributes and access control lists: they \
                        are not kept";
            return self.lost(what.into());
        };
        let call = terms.target.tree.call();
        for (name, value) in extended {
            match local.set_extended_attribute(&call, id, name, value, Presence::Any) {
                Ok(()) => {}
                Err(error @ (Error::NoSpace | Error::QuotaExceeded)) => return Err(error.into()),
                Err(error) => {
                    let name = name.to_string_lossy();
                    self.lost(format!("extended attributes are not kept: {name}: {error}").into())?;
                }
            }
        }
        Ok(())
    }

    /// Something is not kept: a failure when it was asked for by name, else said once.
    fn lost(&mut self, what: Cow<'static, str>) -> Result<(), Trouble> {
        if self.terms.rules.keep.extended == Extended::Required {
            return refuse(&what);
        }
        self.notices.push(Notice::First("loss", what));
        Ok(())
    }
}
