//! The pseudo root: what a client mounts above the exports of a server.
//!
//! MOUNT gives a handle for the path of an export (RFC 1813 appendix I), and NFS version 3 has no
//! root of its own, so a client that wants all exports has to know and to mount each. Rule: `/`,
//! and each directory on the way to an export, can be mounted when no export has that name. They
//! are directories that nobody can change; the name of an export in them leads to the root of
//! that export, whose number of the file system tells clients that another one begins there.
//!
//! Only those exports that the caller's address is allowed are listed and found, as MOUNT lists
//! them: the directories are made anew for each call.

use std::net::IpAddr;
use std::sync::Arc;

use pagewell_fs::{self as fs, Signposts, Timestamp};

use crate::config::Export;
use crate::service::handle::HandleKey;
use crate::service::mount::components;
use crate::service::procedure::{Caller, Target};
use crate::service::{ServedExport, Service};

/// What is above the exports of a server.
pub(super) struct PseudoRoot {
    /// An export `/` for everybody that may use one of the others.
    served: ServedExport,
    made: Timestamp,
}

impl PseudoRoot {
    /// The one above these exports; none when `/` is one of them.
    pub(super) fn above(key: &HandleKey, exports: &[ServedExport]) -> Option<Self> {
        if exports.iter().any(|export| names_of(export).is_empty()) {
            return None;
        }
        let made = Timestamp::now();
        let all = || exports.iter().map(|export| &export.config);
        let export = Export {
            read_only: true,
            allow: all()
                .flat_map(|export| export.networks())
                .copied()
                .collect(),
            secure: all().all(|export| export.secure),
            cookies_32bit: all().any(|export| export.cookies_32bit),
            // what a caller sees of it is made for each call
            ..Export::new("/", Arc::new(Signposts::new([], made)))
        };
        let served = ServedExport::new(key, export);
        Some(Self { served, made })
    }
}

/// The names on the path of an export.
fn names_of(export: &ServedExport) -> Vec<&[u8]> {
    components(export.config.name.as_bytes())
}

impl Service {
    /// Everything that a handle can be of.
    pub(super) fn served(&self) -> impl Iterator<Item = &ServedExport> {
        let pseudo = self.pseudo.iter().map(|pseudo| &pseudo.served);
        self.exports.iter().chain(pseudo)
    }

    /// The directories that a client at `address` sees in the pseudo root, if `export` is that.
    pub(super) fn signposts(&self, export: &ServedExport, address: IpAddr) -> Option<Signposts> {
        let pseudo = self.pseudo.as_ref()?;
        let paths = self.allowed(address).map(names_of);
        std::ptr::eq(&pseudo.served, export).then(|| Signposts::new(paths, pseudo.made))
    }

    fn allowed(&self, address: IpAddr) -> impl Iterator<Item = &ServedExport> {
        let all = self.exports.iter();
        all.filter(move |export| export.config.allows(address))
    }

    /// Finds a name in a directory: what it means, and the export that this is in, which is another
    /// one where the pseudo root leads to it.
    pub(super) fn find<'s>(
        &'s self,
        caller: &Caller,
        directory: &Target<'s>,
        name: &[u8],
    ) -> fs::Result<(&'s ServedExport, fs::Entry)> {
        let filesystem = directory.filesystem();
        let entry = filesystem.lookup(&directory.call(), &directory.id, name)?;
        let is_found = |export: &&ServedExport| Signposts::id_of(&names_of(export)) == entry.id;
        let mut exports = self.allowed(caller.peer);
        let Some(export) = directory
            .signposts
            .as_ref()
            .and_then(|_| exports.find(is_found))
        else {
            return Ok((directory.export, entry));
        };
        let root = self.target_in(caller, export, self.root_of(export));
        let root = root.ok_or(fs::Error::AccessDenied)?;
        match root.filesystem().attributes(&root.call(), &root.id) {
            Ok(attributes) => Ok((
                export,
                fs::Entry {
                    id: root.id,
                    attributes,
                },
            )),
            // its directory is gone; the one with the name is not
            Err(fs::Error::Stale) => Err(fs::Error::NotFound),
            Err(error) => Err(error),
        }
    }
}
