//! What is served: the exports, and what a handle means to a caller.
//!
//! # The pseudo root
//!
//! MOUNT gives a handle for the path of an export (RFC 1813 appendix I), and NFS version 3 has no
//! root of its own, so a client that wants all exports has to know and to mount each. Rule: `/`,
//! and each directory on the way to an export, can be mounted when no export has that name. They
//! are directories that no client can change; the name of an export in them leads to the root of
//! that export, whose number of the file system tells clients that another one begins there.
//!
//! Only those exports that the caller's address is allowed are listed and found, as MOUNT lists
//! them: the directories are made anew for each call.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use pagewell_counters::names as counters;
use pagewell_fs::identity::SERVED_ID_BYTES_MAX;
use pagewell_fs::{self as fs, Timestamp};
use pagewell_policy::limits::Rates;

use crate::Error;
use crate::config::Export;
use crate::cookies::NarrowCookies;
use crate::handles::{HandleKey, Identity, WireHandle};
use crate::pseudo_tree::PseudoTree;
use crate::report;
use pagewell_rpcd::connection::Totals;
use pagewell_rpcd::refusals;
use pagewell_rpcd::usage::ExportLabel;

/// Directories below an export that a mount may name, one after the other.
const PATH_DEPTH_MAX: usize = 128;

/// An export with what belongs to it while it is served.
pub struct ServedExport {
    /// As it was configured.
    pub config: Export,
    /// How it shows file identifiers.
    pub identity: Identity,
    pub(crate) place: Arc<Place>,
    label: ExportLabel,
}

/// What outlives a change of an export's settings, as long as its name and its source stay.
pub struct Place {
    number: AtomicU32,
    narrow_cookies: NarrowCookies,
}

impl ServedExport {
    /// With the place of the same export before it was changed, if there was one.
    fn new(key: &HandleKey, config: Export, before: &[Self]) -> Self {
        let is_same = |other: &&Self| {
            other.config.name == config.name
                && Arc::ptr_eq(&other.config.filesystem, &config.filesystem)
        };
        let place = before.iter().find(is_same).map(|same| same.place.clone());
        let place = place.unwrap_or_else(|| {
            Arc::new(Place {
                number: AtomicU32::new(number_of(key, &config)),
                narrow_cookies: NarrowCookies::default(),
            })
        });
        // clients keep it for as long as a mount lasts: the same whatever is served
        let filesystem_id = u64::from(key.export_number(&config.name, b"")).max(1);
        Self {
            place,
            identity: Identity {
                filesystem_id,
                narrow: config.cookies_32bit,
            },
            label: ExportLabel::of(&config.name),
            config,
        }
    }

    /// The cookies that were given, if they are narrow ones.
    pub fn narrow_cookies(&self) -> &NarrowCookies {
        &self.place.narrow_cookies
    }

    /// The number in the handles of this export.
    pub fn number(&self) -> u32 {
        self.place.number.load(Ordering::Relaxed)
    }
}

/// What is above the exports of a server.
struct PseudoRoot {
    /// An export `/` for every client that may use one of the others.
    served: ServedExport,
    made: Timestamp,
}

impl PseudoRoot {
    /// The one above these exports; none when `/` is one of them.
    fn above(key: &HandleKey, exports: &[ServedExport]) -> Option<Self> {
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
            ..Export::new("/", Arc::new(PseudoTree::new([], made)))
        };
        let served = ServedExport::new(key, export, &[]);
        Some(Self { served, made })
    }
}

/// The names on the path of an export.
fn names_of(export: &ServedExport) -> Vec<&[u8]> {
    components(export.config.name.as_bytes())
}

/// The number that stands for an export, as it is now, in its handles.
fn number_of(key: &HandleKey, export: &Export) -> u32 {
    key.export_number(&export.name, &export.filesystem.tree_id())
}

/// What makes a call, of whom, and whether this thread may wait for its result.
pub struct Caller<'s> {
    /// What is served to it.
    pub served: &'s Served,
    identity: Option<fs::Credentials>,
    /// The client.
    pub peer: SocketAddr,
    /// Whether this thread may wait.
    pub may_block: bool,
    cache: Option<&'s fs::BatchCache>,
    /// The export of the object that was found last.
    used: Cell<ExportLabel>,
}

impl<'s> Caller<'s> {
    /// A client at `peer` that says it calls for `identity`.
    pub fn new(
        served: &'s Served,
        identity: Option<fs::Credentials>,
        peer: SocketAddr,
        (may_block, cache): (bool, Option<&'s fs::BatchCache>),
    ) -> Self {
        Self {
            served,
            identity,
            peer,
            may_block,
            cache,
            used: Cell::default(),
        }
    }

    /// The export that the call is for, as far as that is known.
    pub fn used_export(&self) -> ExportLabel {
        self.used.get()
    }

    /// The root of an export, if this client may use that. It may have been made anew since it was
    /// last asked for.
    pub fn root_in(&self, export: &'s ServedExport) -> fs::Result<Target<'s>> {
        let root = export.config.filesystem.root();
        let mut target = self.target_in(export, root)?;
        target.id = target.filesystem().current_root(&target.call())?;
        let number = number_of(&self.served.handle_key, &export.config);
        export.place.number.store(number, Ordering::Relaxed);
        Ok(target)
    }

    /// Finds the object of a handle and checks that this client may use its export.
    pub fn target(&self, handle: &[u8]) -> fs::Result<Target<'s>> {
        let Some((number, id)) = self.served.handle_key.decode(handle) else {
            counters::BAD_HANDLES.add(1);
            return Err(fs::Error::BadId);
        };
        let mut all = self.served.all();
        let export = all.find(|export| export.number() == number);
        self.target_in(export.ok_or(fs::Error::Stale)?, id)
    }

    /// An object of an export, if this client may use that.
    pub fn target_in(&self, export: &'s ServedExport, id: fs::FileId) -> fs::Result<Target<'s>> {
        if let Some(reason) = export.config.refusal(self.peer) {
            refusals::note(self.peer.ip(), reason);
            return Err(fs::Error::AccessDenied);
        }
        self.used.set(export.label);
        Ok(Target {
            export,
            id,
            credentials: export.config.squashed(self.identity.as_ref()),
            pseudo_tree: self.served.pseudo_tree(export, self.peer.ip()),
            may_block: self.may_block,
            cache: self.cache,
        })
    }

    /// Whether a call that is for all exports may be made: each of them is served at the port that
    /// it comes from.
    pub fn port_is_allowed(&self) -> bool {
        let mut allowed = self.served.allowed(self.peer.ip());
        let refusal = allowed.find_map(|export| export.config.refusal(self.peer));
        if let Some(reason) = refusal {
            refusals::note(self.peer.ip(), reason);
        }
        refusal.is_none()
    }

    /// [`Self::target`] of a call that changes something.
    pub fn target_to_change(&self, handle: &[u8]) -> fs::Result<Target<'s>> {
        let target = self.target(handle)?;
        if target.export.config.read_only {
            return Err(fs::Error::ReadOnly);
        }
        Ok(target)
    }

    /// Finds a name in a directory: what it means, and the export that this is in, which is another
    /// one where the pseudo root leads to it.
    pub fn find(
        &self,
        directory: &Target<'s>,
        name: &[u8],
    ) -> fs::Result<(&'s ServedExport, fs::Entry)> {
        let filesystem = directory.filesystem();
        let entry = filesystem.lookup(&directory.call(), &directory.id, name)?;
        let is_found = |export: &&ServedExport| PseudoTree::id_of(&names_of(export)) == entry.id;
        let mut exports = self.served.allowed(self.peer.ip());
        let Some(export) = directory
            .pseudo_tree
            .as_ref()
            .and_then(|_| exports.find(is_found))
        else {
            return Ok((directory.export, entry));
        };
        let root = self.root_in(export)?;
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

/// The object of a call, and on whose behalf it is used.
pub struct Target<'s> {
    /// The export that it is in.
    pub export: &'s ServedExport,
    /// Which it is.
    pub id: fs::FileId,
    /// On whose behalf, squashed.
    pub credentials: fs::Credentials,
    /// What the caller sees of the pseudo root, if that is the export.
    pub pseudo_tree: Option<PseudoTree>,
    may_block: bool,
    cache: Option<&'s fs::BatchCache>,
}

impl Target<'_> {
    /// The file system, for which this thread is prepared.
    pub fn filesystem(&self) -> fs::Batched<'_> {
        let filesystem: &dyn fs::FileSystem = match &self.pseudo_tree {
            Some(pseudo_tree) => pseudo_tree,
            None => &*self.export.config.filesystem,
        };
        fs::Batched::new(filesystem, self.cache)
    }

    /// A call of the file system for it.
    pub fn call(&self) -> fs::Call<'_> {
        fs::Call::new(&self.credentials, self.may_block)
    }

    /// The attributes of a file that the caller may use: it has one of the rights `wanted`, or is
    /// the owner, as for READ and WRITE (RFC 1813 section 4.4): a program that makes a file without
    /// a right has that right to it as long as the file is open.
    pub fn permitted(&self, wanted: fs::Access) -> fs::Result<fs::Attributes> {
        let (granted, attributes) = self.filesystem().access(&self.call(), &self.id, wanted)?;
        if granted.intersects(wanted) || attributes.uid == self.credentials.uid {
            Ok(attributes)
        } else {
            Err(fs::Error::AccessDenied)
        }
    }

    /// Reports to the operator what went wrong with this object.
    pub fn report(&self, text: &str) {
        let place = self.filesystem().path_of(&self.id);
        let config = &self.export.config;
        report::report(&config.name, place.as_deref(), text);
        let place = place.map_or(String::new(), |place| format!("{place}: "));
        config.faults.note(&(place + text), SystemTime::now());
    }
}

/// All that is served for the length of a call, and what replies about it are made with.
pub struct Served {
    /// Without what is above them.
    pub exports: Vec<ServedExport>,
    /// What is above the exports; nothing when one of them is `/`.
    pseudo: Option<PseudoRoot>,
    handle_key: HandleKey,
    /// What all connections have together.
    pub totals: Arc<Totals>,
}

impl Served {
    /// Serves these exports, of which some were served `before`.
    pub fn new(
        configured: Vec<Export>,
        (handle_key, totals): (HandleKey, Arc<Totals>),
        before: &[ServedExport],
    ) -> Result<Self, Error> {
        let mut exports: Vec<ServedExport> = Vec::new();
        for export in configured {
            if !export.name.starts_with('/') {
                return Err(Error(format!("export '{}': no leading /", export.name)));
            }
            let root = export.filesystem.root();
            let export = ServedExport::new(&handle_key, export, before);
            let name = &export.config.name;
            let is_same = |other: &ServedExport| {
                other.number() == export.number() || other.config.name == *name
            };
            if exports.iter().any(is_same) {
                return Err(Error(format!("export '{name}' is there twice")));
            }
            let id_bytes = root.as_bytes().len();
            if id_bytes > SERVED_ID_BYTES_MAX {
                return Err(Error(format!(
                    "export '{name}': its server's handles have {id_bytes} bytes, and only those \
                     of up to {SERVED_ID_BYTES_MAX} can be served again"
                )));
            }
            exports.push(export);
        }
        Ok(Self {
            pseudo: PseudoRoot::above(&handle_key, &exports),
            exports,
            handle_key,
            totals,
        })
    }

    /// Whether any export allows a client at `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allowed(address).next().is_some()
    }

    /// The handle of an object of an export.
    pub fn handle(&self, export: &ServedExport, id: &fs::FileId) -> WireHandle {
        self.handle_key.encode(export.number(), id)
    }

    /// The number of the export that the object of a handle is in, if `peer` may use that.
    pub fn owner(&self, handle: &[u8], peer: IpAddr) -> Option<u32> {
        let (number, _) = self.handle_key.decode(handle)?;
        let mut exports = self.exports.iter();
        let export = exports.find(|export| export.number() == number)?;
        export.config.allows(peer).then_some(number)
    }

    /// The export of this number.
    pub fn export_numbered(&self, number: u32) -> Option<&ServedExport> {
        self.all().find(|export| export.number() == number)
    }

    /// What the clients of each export may have.
    pub fn limits(&self) -> impl Iterator<Item = (ExportLabel, Rates)> {
        let exports = self.exports.iter();
        exports.map(|export| (export.label, export.config.limits))
    }

    /// What stands for the export of this number, if a client at `address` may use it.
    pub fn label_of(&self, number: u32, address: IpAddr) -> ExportLabel {
        let export = self.export_numbered(number);
        let allowed = export.filter(|export| export.config.allows(address));
        allowed.map_or(ExportLabel::NONE, |export| export.label)
    }

    /// The export and the object of a handle that this server has given.
    pub fn decode(&self, handle: &[u8]) -> Option<(Option<&ServedExport>, fs::FileId)> {
        let (number, id) = self.handle_key.decode(handle)?;
        Some((self.export_numbered(number), id))
    }

    /// Everything that a handle can be of.
    fn all(&self) -> impl Iterator<Item = &ServedExport> {
        let pseudo = self.pseudo.iter().map(|pseudo| &pseudo.served);
        self.exports.iter().chain(pseudo)
    }

    /// The directories that a client at `address` sees in the pseudo root, if `export` is that.
    pub fn pseudo_tree(&self, export: &ServedExport, address: IpAddr) -> Option<PseudoTree> {
        let pseudo = self.pseudo.as_ref()?;
        let paths = self.allowed(address).map(names_of);
        std::ptr::eq(&pseudo.served, export).then(|| PseudoTree::new(paths, pseudo.made))
    }

    /// The exports that a client at `address` may use.
    pub fn allowed(&self, address: IpAddr) -> impl Iterator<Item = &ServedExport> {
        let all = self.exports.iter();
        all.filter(move |export| export.config.allows(address))
    }

    /// The export with the longest name that `path` begins with, and the names after it.
    pub fn export_of<'p>(&self, path: &'p [u8]) -> Option<(&ServedExport, Vec<&'p [u8]>)> {
        let wanted = components(path);
        let begins = |export: &&ServedExport| wanted.starts_with(&names_of(export));
        let length = |export: &&ServedExport| names_of(export).len();
        let export = self.all().filter(begins).max_by_key(length)?;
        let below = wanted.get(length(&export)..)?.to_vec();
        (below.len() <= PATH_DEPTH_MAX).then_some((export, below))
    }
}

/// The names in a path; empty ones and `.` mean nothing.
pub fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
        .collect()
}
