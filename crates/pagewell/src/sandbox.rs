//! The plan of a server's sandbox, from its settings.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::bail;
use pagewell_base::files::folder_of;
use pagewell_monitor::http::place::Place;
use pagewell_object_client::{Options, files_of};
use pagewell_sandbox::{Access, Part, Plan, capabilities, enter, stay_out};
use rustix::thread::CapabilitySet;

use crate::configuration::settings::Settings;
use crate::open::Writes;
use crate::sandbox_arguments::Mode;
use crate::source::Source;
use crate::state;
use crate::storage::Storage;
use crate::storage::contained::files_of_sheet;

/// Files that the server reads later, if they exist: of itself, of the machine, and those by which
/// the C library finds hosts and time zones.
const READ: [&str; 31] = [
    "/proc/self",
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/sys/net",
    "/sys/block",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/fs",
    "/sys/kernel/mm",
    "/dev/urandom",
    "/dev/disk",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/netconfig",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
];

/// Root needs these for directories: to act as each caller, to pass permissions that it has judged,
/// to make what callers ask for, and private mounts.
const OF_DIRECTORIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_ADMIN);

/// Ports below need a capability.
const FREE_PORTS: u16 = 1024;

/// Gives up what a server with these settings does not need, before anything is opened and any
/// thread starts. Returns a line for each part that stays. Makes the state directory: a rule needs
/// an existing path.
///
/// The audit file may be moved by its rotation, and is made again.
pub(crate) fn begin(settings: &Settings, state_directory: &Path) -> anyhow::Result<Vec<String>> {
    if settings.sandbox == Mode::Off {
        stay_out();
        return Ok(Vec::new());
    }
    // Reading the key reports a failure.
    let _ = state::make_directory(state_directory);
    for folder in folders(settings) {
        let _ = state::make_directory(folder);
    }
    let plan = plan(settings, state_directory);
    let standing = enter(&plan);
    let lacks = standing.lacks();
    if settings.sandbox == Mode::Require && !lacks.is_empty() {
        bail!("--sandbox require: {}", lacks.join("; "));
    }
    if !matches!(standing.landlock, Part::Missing(_)) {
        let _ = ENTERED.set(plan);
    }
    let lacks = lacks.into_iter();
    Ok(lacks.map(|lack| format!("sandbox: {lack}")).collect())
}

fn folders(settings: &Settings) -> impl Iterator<Item = &Path> {
    let staging = settings.buckets.writing.staging_dir();
    settings.engine.cache_dir().into_iter().chain(staging)
}

static ENTERED: OnceLock<Plan> = OnceLock::new();

/// Refuses a source that the sandbox does not let be opened.
pub(crate) fn admit(source: &Source, writes: Writes) -> anyhow::Result<()> {
    match ENTERED.get() {
        Some(plan) => admit_to(plan, source, writes),
        None => Ok(()),
    }
}

/// The same for a file to make and write from now on.
pub(crate) fn admit_file(path: &Path) -> anyhow::Result<()> {
    match ENTERED.get() {
        Some(plan) => admit_path(plan, folder_of(path), Access::Files),
        None => Ok(()),
    }
}

fn admit_path(plan: &Plan, path: &Path, access: Access) -> anyhow::Result<()> {
    let suffices = |allowed: Access| [access, Access::Write].contains(&allowed);
    let mut paths = plan.paths.iter();
    if paths.any(|(top, allowed)| suffices(*allowed) && is_below(path, top)) {
        return Ok(());
    }
    bail!(
        "{}: the sandbox forbids it, which was entered without it: restart, or have the next start \
         name a folder above it with --sandbox-allow (in a file: sandbox_allow)",
        path.display()
    );
}

fn admit_to(plan: &Plan, source: &Source, writes: Writes) -> anyhow::Result<()> {
    let mut wanted = Paths::default();
    wanted.add_source(source, writes);
    let mut paths = wanted.all.iter();
    paths.try_for_each(|(path, access)| admit_path(plan, path, *access))?;
    if wanted.is_remote && !plan.connects {
        bail!("the sandbox forbids connections, as none were needed at the start: restart");
    }
    Ok(())
}

/// Whether a path leads to `top`, or below it.
fn is_below(path: &Path, top: &Path) -> bool {
    match (path.canonicalize(), top.canonicalize()) {
        (Ok(path), Ok(top)) => path.starts_with(top),
        // It is missing, which opening it reports.
        (Err(_), _) => true,
        (Ok(_), Err(_)) => false,
    }
}

fn plan(settings: &Settings, state_directory: &Path) -> Plan {
    let mut paths = Paths::default();
    for export in &settings.exports {
        let writes = Writes::of(export.read_only, export.writable);
        paths.add_source(&export.argument.source, writes);
    }
    for path in &settings.sandbox_allow {
        paths.add_directory(path, Access::Write);
    }
    paths.add_file(state_directory, Access::Write);
    for folder in folders(settings) {
        paths.add_file(folder, Access::Write);
    }
    if let Some(file) = &settings.config {
        // A reload may find another file there.
        paths.add_file(folder_of(file), Access::Read);
    }
    if let Some(file) = settings.log.audit_file() {
        paths.add_file(folder_of(file), Access::Files);
        paths.add_file(file, Access::Write);
    }
    let connects = settings.register || paths.is_remote;
    let mut ports = vec![settings.listen.port()];
    match &settings.http {
        Some(Place::Tcp(address)) => ports.push(address.port()),
        Some(Place::Unix(path)) => paths.add_file(folder_of(path), Access::Sockets),
        None => {}
    }
    if let Some(token) = &settings.http_token {
        paths.add_file(token, Access::Read);
    }
    let is_low = |port: &u16| (1..FREE_PORTS).contains(port);
    let mut capabilities = paths.capabilities();
    if connects || ports.iter().any(is_low) {
        capabilities |= CapabilitySet::NET_BIND_SERVICE;
    }
    let has = |capability| {
        let sets = rustix::thread::capabilities(None);
        sets.is_ok_and(|sets| sets.effective.contains(capability))
    };
    let mut all = paths.all;
    all.extend(READ.map(|path| (PathBuf::from(path), Access::Read)));
    all.push((PathBuf::from("/dev/null"), Access::Write));
    Plan {
        paths: all,
        opens_by_handle: paths.has_directories && has(CapabilitySet::DAC_READ_SEARCH),
        makes_private_mounts: paths.has_directories && has(CapabilitySet::SYS_ADMIN),
        // Calls to others may need a reserved port, and registration tries the ports of old
        // mappings.
        listen_ports: (!connects).then_some(ports),
        connects,
        capabilities,
    }
}

#[derive(Default)]
struct Paths {
    all: Vec<(PathBuf, Access)>,
    /// Those whose permissions this user needs, by itself or by a capability.
    files: Vec<(PathBuf, Access)>,
    has_directories: bool,
    has_images: bool,
    is_remote: bool,
}

impl Paths {
    fn add_source(&mut self, source: &Source, writes: Writes) {
        let kind = source.kind;
        self.is_remote |= source.is_remote();
        let access = |least: Option<Writes>| match least.is_some_and(|least| writes >= least) {
            true => Access::Write,
            false => Access::Read,
        };
        match &source.storage {
            Storage::Path(path) if path.is_dir() => {
                let least = kind.written_for.map(|_| Writes::Recognised);
                return self.add_directory(path, access(least));
            }
            Storage::Path(path) => self.add_image(path, access(kind.written_for)),
            Storage::Object(url) => {
                // Opening the source reports a mistake in the URL.
                let paths = files_of(url, &Options::default()).unwrap_or_default();
                let there = paths.into_iter().filter(|path| path.exists());
                self.all.extend(there.map(|path| (path, Access::Read)));
            }
            Storage::Ram(_) | Storage::Url(_) => {}
        }
        self.has_images |= kind.cache.is_some();
    }

    fn add_image(&mut self, path: &Path, access: Access) {
        for file in files_of_sheet(path).iter().filter(|file| file.exists()) {
            self.add_file(file, Access::Read);
        }
        if path.symlink_metadata().is_ok() {
            return self.add_file(path, access);
        }
        // The server looks for what a path that leads nowhere may mean.
        let mut above = path.ancestors().skip(1);
        if let Some(above) = above.find(|above| above.symlink_metadata().is_ok()) {
            self.all.push((above.to_owned(), Access::Read));
        }
    }

    fn add_directory(&mut self, path: &Path, access: Access) {
        self.has_directories = true;
        self.all.push((path.to_owned(), access));
    }

    fn add_file(&mut self, path: &Path, access: Access) {
        self.files.push((path.to_owned(), access));
        self.all.push((path.to_owned(), access));
    }

    fn capabilities(&self) -> CapabilitySet {
        let mut needed = CapabilitySet::empty();
        if self.has_directories {
            needed |= OF_DIRECTORIES;
        }
        if self.has_images {
            // Memory for transfers of the kernel is locked.
            needed |= CapabilitySet::IPC_LOCK;
        }
        let mut files = self.files.iter();
        if !files.all(|(path, access)| capabilities::are_needless_for(path, *access)) {
            needed |= CapabilitySet::DAC_OVERRIDE;
        }
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn paths(source: &str, writes: Writes) -> Paths {
        let mut paths = Paths::default();
        paths.add_source(&Source::parse(OsStr::new(source)).unwrap(), writes);
        paths
    }

    #[test]
    fn a_source_is_written_where_it_is_served_to_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.img");
        std::fs::write(&file, "").unwrap();
        let (folder, file) = (folder.path().display(), file.display());
        for (source, writes, access) in [
            (format!("{folder}"), Writes::Recognised, Access::Write),
            (format!("dir:{folder}"), Writes::None, Access::Read),
            (format!("{file}"), Writes::Recognised, Access::Read),
            (format!("{file}"), Writes::Any, Access::Write),
            (format!("image:{file}"), Writes::Recognised, Access::Write),
            (format!("image:{file}"), Writes::None, Access::Read),
            (format!("iso:{file}"), Writes::Any, Access::Read),
        ] {
            let found = paths(&source, writes);
            let (path, found_access) = found.all.first().unwrap();
            assert!(source.ends_with(path.to_str().unwrap()), "{source}");
            assert_eq!(*found_access, access, "{source}");
            assert_eq!(found.all.len(), 1, "{source}");
        }
    }

    #[test]
    fn what_needs_no_path_gets_no_path_and_images_no_capability_of_directories() {
        let memory = paths("ram:1m", Writes::Recognised);
        assert!(memory.all.is_empty() && memory.capabilities().is_empty());
        let remote = paths("nfs://127.0.0.1/x", Writes::Recognised);
        assert!(remote.all.is_empty() && remote.is_remote);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.img");
        std::fs::write(&file, "").unwrap();
        let image = paths(&format!("image:{}", file.display()), Writes::Recognised);
        assert_eq!(image.capabilities(), CapabilitySet::IPC_LOCK);
        let parent = folder.path().display().to_string();
        let directory = paths(&parent, Writes::None);
        assert_eq!(directory.capabilities(), OF_DIRECTORIES);
        let missing = paths(&format!("{parent}/none/at.iso"), Writes::Recognised);
        assert_eq!(missing.all, [(folder.path().to_owned(), Access::Read)]);
    }

    #[test]
    fn what_was_not_named_at_the_start_is_refused_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["a", "a/below", "b"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let plan = |access| Plan {
            paths: vec![(folder.path().join("a"), access)],
            opens_by_handle: false,
            makes_private_mounts: false,
            listen_ports: None,
            connects: false,
            capabilities: CapabilitySet::empty(),
        };
        let refused = |access, source: &str, writes| {
            let source = Source::parse(OsStr::new(source)).unwrap();
            let refused = admit_to(&plan(access), &source, writes);
            refused.err().map(|error| error.to_string())
        };
        let (read, write) = (Writes::None, Writes::Recognised);
        assert_eq!(refused(Access::Write, &at("a/below"), write), None);
        assert_eq!(refused(Access::Read, &at("a"), read), None);
        assert_eq!(refused(Access::Read, "ram:1m", write), None);
        for (access, source, writes) in [
            (Access::Read, at("a"), write),
            (Access::Write, at("b"), read),
        ] {
            let said = refused(access, &source, writes).unwrap();
            assert!(said.contains("--sandbox-allow"), "{said}");
        }
        let said = refused(Access::Write, "nfs://127.0.0.1/x", read).unwrap();
        assert!(said.contains("connections"), "{said}");
    }
}
