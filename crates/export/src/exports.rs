//! The exports in service, and the object behind each handle.
//!
//! # Replacement
//!
//! The exports [in force](InForce) can be replaced while calls run. Each call takes them once and
//! keeps them to its end. `arc-swap` marks the use in a slot of the reader's thread, so that
//! readers share no written line. [`Retired`] waits for the last call of an export.
//!
//! Weakness: a thread with more than eight such marks counts references, a shared write; a call has
//! one.
//!
//! # The pseudo root
//!
//! MOUNT gives a handle for each export (RFC 1813 appendix I), so a client of all exports must
//! mount each. `/` and the directories above exports can be mounted unless an export has the name.
//! They are read-only; an export's name in them leads to its root, whose file system number shows
//! clients the border. A caller finds only the exports that its address may use: each call makes
//! the directories.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use pagewell_base::sync::Mutex;
use pagewell_counters::names as counters;
use pagewell_fs::identity::SERVED_ID_BYTES_MAX;
use pagewell_fs::{self as fs, FileSystem, Finish, Timestamp};
use pagewell_policy::limits::Rates;

use crate::Error;
use crate::config::Export;
use crate::cookies::NarrowCookies;
use crate::ending::{Loss, finish_all};
use crate::handles::{HandleKey, Identity, WireHandle};
use crate::pseudo_tree::PseudoTree;
use crate::report;
use pagewell_rpcd::bounds::Bounds;
use pagewell_rpcd::connection::Totals;
use pagewell_rpcd::refusals;
use pagewell_rpcd::slow::Subject;
use pagewell_rpcd::usage::ExportLabel;

const PATH_DEPTH_MAX: usize = 128;

/// Between two checks for the end of the last call.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// An export in service.
pub struct ServedExport {
    /// Its configuration.
    pub config: Export,
    /// Its file numbers for clients.
    pub identity: Identity,
    place: Arc<Place>,
    label: ExportLabel,
}

/// Survives a change of settings, while name and source stay.
struct Place {
    number: AtomicU32,
    narrow_cookies: NarrowCookies,
}

impl ServedExport {
    /// Takes over the place of the same export in `before`.
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
        // A mount keeps it, so it does not depend on the source.
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

    /// Its table of narrow cookies.
    pub fn narrow_cookies(&self) -> &NarrowCookies {
        &self.place.narrow_cookies
    }

    /// In its handles.
    pub fn number(&self) -> u32 {
        self.place.number.load(Ordering::Relaxed)
    }
}

/// The directories above the exports.
struct PseudoRoot {
    /// An export `/` for the clients of all exports.
    served: ServedExport,
    made: Timestamp,
}

impl PseudoRoot {
    /// `None` when an export is `/`.
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
            // Each call makes its own view of it.
            ..Export::new("/", Arc::new(PseudoTree::new([], made)))
        };
        let served = ServedExport::new(key, export, &[]);
        Some(Self { served, made })
    }
}

fn names_of(export: &ServedExport) -> Vec<&[u8]> {
    components(export.config.name.as_bytes())
}

/// The current number of an export in its handles.
fn number_of(key: &HandleKey, export: &Export) -> u32 {
    key.export_number(&export.name, &export.filesystem.tree_id())
}

/// The origin of a call, and whether it may block.
pub struct Caller<'s> {
    /// Those in service.
    pub served: &'s Served,
    identity: Option<fs::Credentials>,
    /// The client's.
    pub peer: SocketAddr,
    /// Whether the thread may block.
    pub may_block: bool,
    cache: Option<&'s fs::BatchCache>,
    used: Cell<ExportLabel>,
}

impl<'s> Caller<'s> {
    /// A client at `peer` that calls as `identity`.
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

    /// Once known.
    pub fn used_export(&self) -> ExportLabel {
        self.used.get()
    }

    /// The current root of an export, if this client may use it.
    pub fn root_in(&self, export: &'s ServedExport) -> fs::Result<Target<'s>> {
        let root = export.config.filesystem.root();
        let mut target = self.target_in(export, root)?;
        target.id = target.filesystem().current_root(&target.call())?;
        let number = number_of(&self.served.handle_key, &export.config);
        export.place.number.store(number, Ordering::Relaxed);
        Ok(target)
    }

    /// The object of a handle, if this client may use its export.
    pub fn target(&self, handle: &[u8]) -> fs::Result<Target<'s>> {
        let Some((number, id)) = self.served.handle_key.decode(handle) else {
            counters::BAD_HANDLES.add(1);
            return Err(fs::Error::BadId);
        };
        let mut all = self.served.all();
        let export = all.find(|export| export.number() == number);
        self.target_in(export.ok_or(fs::Error::Stale)?, id)
    }

    /// An object of an export, if this client may use it.
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

    /// Whether a call for all exports may come from this port: each accepts it.
    pub fn port_is_allowed(&self) -> bool {
        let mut allowed = self.served.allowed(self.peer.ip());
        let refusal = allowed.find_map(|export| export.config.refusal(self.peer));
        if let Some(reason) = refusal {
            refusals::note(self.peer.ip(), reason);
        }
        refusal.is_none()
    }

    /// [`Self::target`] for a change.
    pub fn target_to_change(&self, handle: &[u8]) -> fs::Result<Target<'s>> {
        let target = self.target(handle)?;
        if target.export.config.read_only {
            return Err(fs::Error::ReadOnly);
        }
        Ok(target)
    }

    /// Below the pseudo root the entry may lie in another export.
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
            // The export's directory is gone, its name is not.
            Err(fs::Error::Stale) => Err(fs::Error::NotFound),
            Err(error) => Err(error),
        }
    }
}

/// An object, and the user that the call acts for.
pub struct Target<'s> {
    /// Its export.
    pub export: &'s ServedExport,
    /// Its identifier.
    pub id: fs::FileId,
    /// After squashing.
    pub credentials: fs::Credentials,
    /// The caller's view, if the export is the pseudo root.
    pub pseudo_tree: Option<PseudoTree>,
    may_block: bool,
    cache: Option<&'s fs::BatchCache>,
}

impl Target<'_> {
    /// With the cache of the receive batch.
    pub fn filesystem(&self) -> fs::Batched<'_> {
        let filesystem: &dyn fs::FileSystem = match &self.pseudo_tree {
            Some(pseudo_tree) => pseudo_tree,
            None => &*self.export.config.filesystem,
        };
        fs::Batched::new(filesystem, self.cache)
    }

    /// A call to it.
    pub fn call(&self) -> fs::Call<'_> {
        fs::Call::new(&self.credentials, self.may_block)
    }

    /// The attributes, if the caller has one of the rights `wanted` or owns the file. Owners may
    /// always READ and WRITE (RFC 1813 section 4.4): a program may create a file without the right
    /// to write it.
    pub fn permitted(&self, wanted: fs::Access) -> fs::Result<fs::Attributes> {
        let (granted, attributes) = self.filesystem().access(&self.call(), &self.id, wanted)?;
        if granted.intersects(wanted) || attributes.uid == self.credentials.uid {
            Ok(attributes)
        } else {
            Err(fs::Error::AccessDenied)
        }
    }

    /// To the operator, of this object's storage.
    pub fn report(&self, text: &str) {
        let place = self.filesystem().path_of(&self.id);
        let config = &self.export.config;
        report::report(&config.name, place.as_deref(), text);
        let place = place.map_or(String::new(), |place| format!("{place}: "));
        config.faults.note(&(place + text), SystemTime::now());
    }
}

/// The exports in service, with the key of their handles.
pub struct Served {
    /// Without the pseudo root.
    pub exports: Vec<ServedExport>,
    /// `None` when an export is `/`.
    pseudo: Option<PseudoRoot>,
    handle_key: HandleKey,
    /// Over all connections.
    pub totals: Arc<Totals>,
}

impl Served {
    /// Takes over the places of the exports in `before`.
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
                other.number() == export.number() || names_of(other) == names_of(&export)
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

    /// Whether an export allows `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allowed(address).next().is_some()
    }

    /// Of an object.
    pub fn handle(&self, export: &ServedExport, id: &fs::FileId) -> WireHandle {
        self.handle_key.encode(export.number(), id)
    }

    /// The number of the export of a handle, if `peer` may use it.
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

    /// Of each export.
    pub fn limits(&self) -> impl Iterator<Item = (ExportLabel, Rates)> {
        let exports = self.exports.iter();
        exports.map(|export| (export.label, export.config.limits))
    }

    /// If `address` may use the export.
    pub fn label_of(&self, number: u32, address: IpAddr) -> ExportLabel {
        let export = self.export_numbered(number);
        let allowed = export.filter(|export| export.config.allows(address));
        allowed.map_or(ExportLabel::NONE, |export| export.label)
    }

    /// The export and object of a handle that this server made.
    pub fn decode(&self, handle: &[u8]) -> Option<(Option<&ServedExport>, fs::FileId)> {
        let (number, id) = self.handle_key.decode(handle)?;
        Some((self.export_numbered(number), id))
    }

    /// With the pseudo root.
    fn all(&self) -> impl Iterator<Item = &ServedExport> {
        let pseudo = self.pseudo.iter().map(|pseudo| &pseudo.served);
        self.exports.iter().chain(pseudo)
    }

    /// What `address` sees of the pseudo root, if `export` is that.
    pub fn pseudo_tree(&self, export: &ServedExport, address: IpAddr) -> Option<PseudoTree> {
        let pseudo = self.pseudo.as_ref()?;
        let paths = self.allowed(address).map(names_of);
        std::ptr::eq(&pseudo.served, export).then(|| PseudoTree::new(paths, pseudo.made))
    }

    /// The exports that `address` may use.
    pub fn allowed(&self, address: IpAddr) -> impl Iterator<Item = &ServedExport> {
        let all = self.exports.iter();
        all.filter(move |export| export.config.allows(address))
    }

    /// Brings all data to the devices, even when one of them fails.
    pub fn sync(&self) -> Result<(), pagewell_fs::Error> {
        let sync = |export: &ServedExport| export.config.filesystem.finish(Finish::Sync).map(drop);
        let results: Vec<_> = self.exports.iter().map(sync).collect();
        results.into_iter().collect()
    }

    /// [`Self::sync`] at the end, in parallel, so that a dead export costs the others no time.
    pub fn finish(&self, patience: Duration) -> Vec<Loss> {
        let exports = self.exports.iter().map(|export| &export.config);
        finish_all(
            exports.map(|export| (&*export.name, &*export.filesystem)),
            patience,
        )
    }

    /// Ends all calls.
    pub fn abandon(&self) {
        for export in &self.exports {
            let _ = export.config.filesystem.finish(Finish::Abandon);
        }
    }

    /// The export with the longest name that starts `path`, and the names behind it.
    pub fn export_of<'p>(&self, path: &'p [u8]) -> Option<(&ServedExport, Vec<&'p [u8]>)> {
        let wanted = components(path);
        let begins = |export: &&ServedExport| wanted.starts_with(&names_of(export));
        let length = |export: &&ServedExport| names_of(export).len();
        let export = self.all().filter(begins).max_by_key(length)?;
        let below = wanted.get(length(&export)..)?.to_vec();
        (below.len() <= PATH_DEPTH_MAX).then_some((export, below))
    }
}

/// The exports in force.
pub struct InForce {
    served: ArcSwap<Served>,
    handle_key: HandleKey,
    /// Of the server's calls.
    pub bounds: Arc<Bounds>,
    is_final: Mutex<bool>,
}

/// The source of a replaced export. The last call that uses it closes it.
pub struct Retired {
    /// The export's name.
    pub name: String,
    filesystem: Arc<dyn FileSystem>,
    place: Arc<Place>,
}

impl InForce {
    /// `key` signs the handles.
    pub fn new(exports: Vec<Export>, key: [u8; 16], bounds: Arc<Bounds>) -> Result<Self, Error> {
        let handle_key = HandleKey::new(key);
        let shared = (handle_key.clone(), bounds.totals.clone());
        let served = Served::new(exports, shared, &[])?;
        bounds.limits.limit_exports(served.limits());
        Ok(Self {
            served: ArcSwap::from_pointee(served),
            handle_key,
            bounds,
            is_final: Mutex::new(false),
        })
    }

    /// For one call.
    pub fn now(&self) -> impl Deref<Target = Arc<Served>> + use<> {
        self.served.load()
    }

    /// Of a call for a handle.
    pub fn subject(&self, handle: &[u8]) -> Option<Subject> {
        let (export, id) = self.handle_key.decode(handle)?;
        Some(Subject {
            object: Some(id),
            export,
        })
    }

    /// Whether an export allows `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.now().allows(address)
    }

    /// Serves `exports` from the next call on; returns the sources out of service.
    ///
    /// # Errors
    ///
    /// Contradictory exports, or a stopping server: nothing changes.
    pub fn replace(&self, exports: Vec<Export>) -> Result<Vec<Retired>, Error> {
        let is_final = self.is_final.lock();
        if *is_final {
            return Err(Error("the server is stopping".to_owned()));
        }
        let before = self.served.load_full();
        let shared = (self.handle_key.clone(), self.bounds.totals.clone());
        let served = Arc::new(Served::new(exports, shared, &before.exports)?);
        self.served.store(served.clone());
        self.bounds.limits.limit_exports(served.limits());
        let is_served = |filesystem: &Arc<dyn FileSystem>| {
            let mut all = served.exports.iter();
            all.any(|export| Arc::ptr_eq(&export.config.filesystem, filesystem))
        };
        let gone = before.exports.iter();
        let gone = gone.filter(|export| !is_served(&export.config.filesystem));
        let retired = gone.map(|export| Retired {
            name: export.config.name.clone(),
            filesystem: export.config.filesystem.clone(),
            place: export.place.clone(),
        });
        Ok(retired.collect())
    }

    /// Refuses replacements from now on.
    pub fn make_final(&self) {
        *self.is_final.lock() = true;
    }
}

impl Retired {
    /// Waits up to `patience` for the last call, then as long for written data, then ends the calls
    /// that remain. Returns what is lost.
    #[must_use]
    pub fn finish(self, patience: Duration) -> Option<Loss> {
        let deadline = Instant::now() + patience;
        let is_used = || Arc::strong_count(&self.place) > 1;
        while is_used() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        let losses = finish_all([(&*self.name, &*self.filesystem)], patience);
        if is_used() {
            let _ = self.filesystem.finish(Finish::Abandon);
        }
        losses.into_iter().next()
    }
}

/// Without empty names and `.`.
pub fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_is_one_export_however_it_is_written() {
        let served = |names: &[&str]| {
            let tree = || Arc::new(PseudoTree::new([], Timestamp::now()));
            let exports = names.iter().map(|name| Export::new(name, tree()));
            let shared = (HandleKey::new([7; 16]), Arc::default());
            Served::new(exports.collect(), shared, &[])
        };
        for other in ["/a/b", "/a/b/", "/a//b", "/./a/b"] {
            let Error(error) = served(&["/a/b", other]).err().unwrap();
            assert_eq!(error, format!("export '{other}' is there twice"));
        }
        assert!(served(&["/a/b", "/a", "/b", "/"]).is_ok());
    }
}
