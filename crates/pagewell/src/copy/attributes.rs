//! The attributes of a copy.
//!
//! By default a new file has the permissions of its original that the umask leaves, the owner that
//! copies, and the time of its making; an existing file keeps what it had. Set-id bits are only
//! given with the owner of the original.

use std::borrow::Cow;
use std::ffi::CStr;

use pagewell_fs::extended::ExtendedAttribute;
use pagewell_fs::{Attributes, Error, FileId, FileType, Presence, SetAttributes, SetTime};

use super::hand::{Hand, Notice};
use super::losses::{Part, is_refusal};
use super::object::{Object, Original, Trouble, refuse};
use super::rules::Extended;
use super::terms::Terms;

/// The names of access control lists begin with this.
const LIST_PREFIX: &[u8] = b"system.posix_acl_";
const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const DEFAULT_LIST: &CStr = c"system.posix_acl_default";
/// Labels belong to the policy of a machine, not to a file; GNU cp leaves them, too.
const LABEL: &[u8] = b"security.selinux";

/// How the object of the copy came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// For this copy.
    New,
    /// It was there.
    Before,
    /// For this copy: a directory, with its mode until it is filled.
    Directory { mode: u32 },
}

pub(super) fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

fn with_group(gid: u32) -> SetAttributes {
    SetAttributes {
        gid: Some(gid),
        ..SetAttributes::default()
    }
}

impl Terms {
    /// Owner and times to keep. Only root gives files away; others keep a group that they are in.
    pub(super) fn kept(&self, original: &Attributes) -> SetAttributes {
        let keep = self.rules.keep;
        let is_root = self.is_root();
        let has_group = is_root || self.target.tree.call().credentials.in_group(original.gid);
        let time = |time| keep.timestamps.then_some(SetTime::To(time));
        SetAttributes {
            uid: (keep.ownership && is_root).then_some(original.uid),
            gid: (keep.ownership && has_group).then_some(original.gid),
            accessed: time(original.accessed),
            modified: time(original.modified),
            ..SetAttributes::default()
        }
    }

    /// The mode of a new object until it is filled: before it gets another owner, no other user may
    /// open it.
    pub(super) fn mode_at_first(&self, original: &Attributes) -> u32 {
        let mode = original.mode & 0o777;
        match self.rules.keep {
            keep if keep.ownership => mode & 0o700,
            keep if keep.mode => mode,
            _ => mode & !self.rules.umask,
        }
    }

    /// The final mode; nothing when it is right already.
    fn mode_at_last(&self, original: &Attributes, object: &Object, made: Made) -> Option<u32> {
        let keep = self.rules.keep;
        let as_original = original.mode & 0o777 & !self.rules.umask;
        match made {
            _ if keep.mode => Some(self.mode_kept(original, object)),
            Made::New if keep.ownership => Some(as_original),
            Made::New | Made::Before => None,
            Made::Directory { mode } => {
                Some(as_original | mode & 0o2000).filter(|wanted| *wanted != mode)
            }
        }
    }

    /// The mode of the original; set-id bits only with its owner and group.
    fn mode_kept(&self, original: &Attributes, object: &Object) -> u32 {
        let mode = original.mode & 0o7777;
        let owner = (original.uid, original.gid);
        if mode & 0o6000 == 0 || self.owner_of(object).is_ok_and(|now| now == owner) {
            return mode;
        }
        mode & !0o6000
    }

    fn owner_of(&self, object: &Object) -> Result<(u32, u32), Error> {
        match object {
            Object::Known(id) => {
                let (filesystem, call) = self.at_target();
                let found = filesystem.attributes(&call, id)?;
                Ok((found.uid, found.gid))
            }
            Object::Open(file) => {
                let found = rustix::fs::fstat(file)?;
                Ok((found.st_uid, found.st_gid))
            }
        }
    }

    /// Removes access control lists that the original lacks: those of a new object's directory
    /// would let more users in.
    fn remove_lists(
        &self,
        original: &Attributes,
        object: &Object,
        extended: &[ExtendedAttribute],
    ) -> Result<(), Error> {
        // Saves a call for each file where none can have lists.
        let local = self.local().filter(|local| local.limits().access_lists);
        let Some(lists) = local.and_then(|local| local.extended_attributes()) else {
            return Ok(());
        };
        let of_directory = original.file_type.is_directory().then_some(DEFAULT_LIST);
        for list in std::iter::once(ACCESS_LIST).chain(of_directory) {
            if extended.iter().any(|(name, _)| name.as_c_str() == list) {
                continue;
            }
            let removed = match object {
                Object::Known(id) => lists.remove(&self.target.tree.call(), id, list),
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
    /// Gives a copy the attributes to keep.
    pub(super) fn dress(
        &mut self,
        original: &Original<'_>,
        object: &Object,
        made: Made,
    ) -> Result<(), Trouble> {
        let terms = self.terms.clone();
        let source = &original.entry.attributes;
        let keep = terms.rules.keep;
        let mut wanted = terms.kept(source);
        // Known ones are set, whatever fails.
        let (extended, known) = match self.extended(original) {
            Ok(extended) => (extended, Ok(())),
            Err(trouble) => (Vec::new(), Err(trouble)),
        };
        if !extended.is_empty() || keep.mode && source.mode & 0o6000 != 0 {
            // The owner first: its change removes attributes that give rights, and it decides which
            // are given.
            let owner = Part::Ownership.of(&wanted);
            (wanted.uid, wanted.gid) = (None, None);
            self.give(original, object, &owner)?;
        }
        let set = self.set_extended(original, object, &extended);
        // The mode last: attributes cannot be set without permission to write.
        wanted.mode = terms.mode_at_last(source, object, made);
        self.give(original, object, &wanted)?;
        known.and(set)
    }

    /// Sets attributes of a copy, by one call if possible. One that is refused costs no other, and
    /// is noted.
    pub(super) fn give(
        &mut self,
        original: &Original<'_>,
        object: &Object,
        wanted: &SetAttributes,
    ) -> Result<(), Trouble> {
        let Err(refusal) = self.terms.set(object, wanted) else {
            return Ok(());
        };
        for part in Part::ALL {
            let alone = part.of(wanted);
            let set = match alone == *wanted {
                true => Err(refusal.clone()),
                false => self.terms.set(object, &alone),
            };
            let Err(error) = set else { continue };
            if !is_refusal(&error) {
                return Err(error.into());
            }
            if let (Some(_), Some(gid)) = (alone.uid, alone.gid) {
                // As cp(1) does: the user of the target may be in this group.
                let _ = self.terms.set(object, &with_group(gid));
            }
            // Root alone gets a message, as from cp(1).
            if part != Part::Ownership || alone.uid.is_some() {
                let is_directory = original.entry.attributes.file_type.is_directory();
                self.notices.push(Notice::Lost(part, is_directory, error));
            }
        }
        Ok(())
    }

    /// The extended attributes of the original to keep, where they are known.
    fn extended(&mut self, original: &Original<'_>) -> Result<Vec<ExtendedAttribute>, Trouble> {
        let wanted = self.terms.rules.keep.extended;
        if wanted == Extended::Nothing {
            return Ok(Vec::new());
        }
        let lists_only = wanted == Extended::Lists;
        let place = original.place;
        if place.is_remote {
            let what = "an NFS server does not tell extended attributes and access control lists: \
                        none are kept";
            self.lost(what.into())?;
            return Ok(Vec::new());
        }
        let (entry, call) = (&original.entry, place.tree.call());
        let extended = place.tree.filesystem.extended_attributes().filter(|_| {
            // Other types could not get them.
            let file_type = entry.attributes.file_type;
            matches!(file_type, FileType::Regular | FileType::Directory)
        });
        let known = match extended.map(|extended| extended.all(&call, &entry.id)) {
            None | Some(Err(Error::NotSupported)) => return Ok(Vec::new()),
            Some(known) => known,
        };
        let mut known = known.map_err(|error| Trouble::Source(error.into()))?;
        known.retain(|(name, _)| {
            let name = name.as_bytes();
            name != LABEL && (!lists_only || name.starts_with(LIST_PREFIX))
        });
        Ok(known)
    }

    /// Gives a copy extended attributes, and removes other access control lists.
    fn set_extended(
        &mut self,
        original: &Original<'_>,
        object: &Object,
        extended: &[ExtendedAttribute],
    ) -> Result<(), Trouble> {
        let terms = self.terms.clone();
        let mut kept = Ok(());
        if let (Object::Known(id), [_, ..]) = (object, extended) {
            kept = self.set_each(id, extended);
        }
        let keep = terms.rules.keep;
        if keep.mode && keep.extended != Extended::Nothing {
            terms.remove_lists(&original.entry.attributes, object, extended)?;
        }
        kept
    }

    fn set_each(&mut self, id: &FileId, extended: &[ExtendedAttribute]) -> Result<(), Trouble> {
        let terms = self.terms.clone();
        let Some(local) = terms.local() else {
            let what = "the target takes no extended attributes and access control lists: they \
                        are not kept";
            return self.lost(what.into());
        };
        let call = terms.target.tree.call();
        let mut kept = Ok(());
        for (name, value) in extended {
            let set = match local.extended_attributes() {
                Some(target) => target.set(&call, id, name, value, Presence::Any),
                None => Err(Error::NotSupported),
            };
            if let Err(error) = set {
                let name = name.to_string_lossy();
                let what = format!("extended attributes are not kept: {name}: {error}");
                kept = kept.and(self.lost(what.into()));
            }
        }
        kept
    }

    /// Something is not kept: a failure when the user named it, else one notice.
    fn lost(&mut self, what: Cow<'static, str>) -> Result<(), Trouble> {
        if self.terms.rules.keep.extended == Extended::Required {
            return refuse(&what);
        }
        self.notices.push(Notice::First("loss", what));
        Ok(())
    }
}
