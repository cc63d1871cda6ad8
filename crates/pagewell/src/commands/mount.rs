//! `pagewell mount`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use pagewell_counters::names;
use pagewell_fs::Finish;
use pagewell_fuse::{Mounted, Options, UnmountError, mounted_on, users_of};
use pagewell_monitor::control::{Control, Ended};
use pagewell_monitor::http::place::Place;
use pagewell_monitor::metrics::snapshot;
use pagewell_monitor::status::{ExportStatus, Status};

use super::mount_configured::{Chosen, mount_all};
use super::mount_options::Wanted;
use super::mount_place;
use super::serving::{ANSWER_WAIT, HttpArguments, announce, start_http, wait_for};
use crate::allocator;
use crate::background::{self, Side, SystemLog};
use crate::bucket_arguments::BucketArguments;
use crate::configuration::arguments::THREADS_MAX;
use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{Outcome, note, one_line, report, usage};
use crate::log_arguments::LogArguments;
use crate::mount_commands;
use crate::open::{Purpose, Writes};
use crate::output;
use crate::service_manager::Notifier;
use crate::signals;
use crate::source::Source;
use crate::values;

const USERS_NAMED_MAX: usize = 5;

/// How often to look whether the mount has ended.
const TICK: Duration = Duration::from_secs(1);
/// Mount a source through FUSE.
///
/// Returns when the mount can be used and goes on in the background, until it is unmounted
/// (`pagewell umount`, `umount`, `fusermount3 -u`) or gets SIGTERM, SIGINT or SIGHUP. If programs
/// use it then, it goes from its place at once and ends when they are done; a second signal ends
/// it at once.
///
/// Without root, the program fusermount3 (package fuse3) is needed, only the user who mounts may
/// use the mount unless --allow-other is given, and directories are used as that user. In the
/// background messages go to the system log.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell mount debian.iso /mnt                   an ISO 9660 image
  pagewell mount --read-only /dev/sdb /mnt         a block device, as one file in /mnt
  pagewell mount ram:1g ~/scratch                  memory
  pagewell mount -o attr_timeout=1 /srv/data /mnt  a directory that few programs change
  pagewell mount --config pagewell.toml /mnt       as the file says of /mnt
  pagewell umount /mnt")]
pub(crate) struct MountArguments {
    /// Mount at the directory what this file says of it, such as /etc/pagewell/pagewell.toml: its
    /// source with its options, and those that are given besides
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) config: Option<PathBuf>,
    /// With --config: all mounts of the file that are not there yet, but those with the option
    /// noauto
    #[arg(long, requires = "config", conflicts_with_all = ["foreground", "source"])]
    all: bool,
    /// Stay in the foreground, and print `ready MOUNTPOINT` when the mount can be used
    #[arg(long, short)]
    foreground: bool,
    /// Refuse all changes
    #[arg(long, short)]
    read_only: bool,
    /// Let a file that is not recognised be written, too, as image:PATH does
    #[arg(long)]
    writable: bool,
    /// Let other users use the mount; permissions are as the source has them
    #[arg(long)]
    allow_other: bool,
    /// Threads that may wait for storage
    #[arg(
        long,
        default_value_t = 64,
        value_name = "COUNT",
        value_parser = |text: &str| values::parse_count(text, THREADS_MAX)
    )]
    threads: u32,
    /// Let the kernel keep what is written, and send it late: fewer and larger writes, which
    /// nobody but this machine sees before they are sent. Whole pages are sent: what other clients
    /// wrote to the same pages meanwhile is lost
    #[arg(long)]
    kernel_write_back: bool,
    /// Do not let the kernel read and write files of a directory by itself
    #[arg(long)]
    no_passthrough: bool,
    /// Give file numbers of 32 bits only, for programs that cannot read larger ones
    #[arg(long)]
    numbers_32bit: bool,
    /// Open the source and mount nothing, as `mount --fake` does
    #[arg(long, hide = true)]
    fake: bool,
    #[command(flatten)]
    page: HttpArguments,
    /// Options in the manner of mount(8), separated by commas: ro, rw, allow_other, suid, nosuid,
    /// dev, nodev, exec, noexec, noatime, uid=N, gid=N, umask=MODE (owner and permissions that are
    /// shown instead of the source's), sync and dirsync (what is written, or changed in
    /// directories, is on the device when it is answered), for how long the kernel keeps what it
    /// was told: attr_timeout=TIME, entry_timeout=TIME, negative_timeout=TIME, what the list of
    /// mounts shows: fsname=NAME, subtype=NAME, and for the options above: cache=SIZE, threads=N,
    /// http=ADDR, http_token=FILE, writable, kernel_write_back, no_passthrough, numbers_32bit,
    /// cache_dir=DIR, cache_dir_size=SIZE, staging_dir=DIR, staging_dir_size=SIZE,
    /// object_writes=WHICH.
    /// Those for fstab, such as nofail, _netdev, user and x-..., are taken
    #[arg(short = 'o', value_name = "OPTION[=VALUE],...")]
    pub(super) options: Vec<String>,
    /// What to mount; with --config the directory alone is named
    #[arg(
        value_name = "SOURCE",
        required_unless_present = "all",
        value_hint = clap::ValueHint::AnyPath
    )]
    pub(super) source: Option<OsString>,
    /// Where: a directory
    #[arg(
        value_name = "MOUNTPOINT",
        required_unless_present = "config",
        value_hint = clap::ValueHint::DirPath
    )]
    pub(super) place: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArguments,
    #[command(flatten)]
    buckets: BucketArguments,
    #[command(flatten)]
    log: LogArguments,
}

const NO_LOG: &str =
    "nothing listens at /dev/log: what it says later is lost (--foreground shows it)";
const NO_WRITE_BACK: &str = "its length is fixed, so that the kernel keeps no written data of it: \
                             what goes past the end would be lost";

enum Event {
    Signal,
    Ended(std::io::Result<()>),
}

impl MountArguments {
    /// The options that the mount is to have.
    pub(super) fn wanted(&self, chosen: &Chosen) -> anyhow::Result<Wanted> {
        let options = Options {
            read_only: self.read_only,
            allow_other: self.allow_other,
            threads: usize::try_from(self.threads).unwrap_or(usize::MAX),
            kernel_write_back: self.kernel_write_back,
            passthrough: !self.no_passthrough,
            narrow_numbers: self.numbers_32bit,
            ..Options::new(&chosen.shown)
        };
        let mut wanted = Wanted::new(options, &chosen.options)?;
        wanted.http = wanted.http.or(self.page.http.clone());
        wanted.http_token = wanted.http_token.or(self.page.http_token.clone());
        wanted.writable |= self.writable;
        wanted.writing = wanted.writing.or(&self.buckets.writing);
        Ok(wanted)
    }

    /// The page, for this machine alone.
    fn page(&self, wanted: &Wanted) -> anyhow::Result<HttpArguments> {
        if let Some(http) = wanted.http.as_ref().and_then(Place::reachable) {
            return Err(usage(format!(
                "--http {http}: only a loopback address, such as 127.0.0.1:20491"
            )));
        }
        Ok(HttpArguments {
            http: wanted.http.clone(),
            http_token: wanted.http_token.clone(),
        })
    }
}

pub(crate) fn run(arguments: &MountArguments) -> anyhow::Result<Outcome> {
    arguments.log.begin()?;
    if arguments.all {
        return mount_all(arguments);
    }
    let chosen = Chosen::of(arguments)?;
    let wanted = arguments.wanted(&chosen)?;
    let page = arguments.page(&wanted)?;
    let engine = engine_for(&chosen.source, arguments, &wanted)?;
    let (source, shown) = (&chosen.source, &*chosen.shown);
    if arguments.fake {
        return source
            .open(shown, Purpose::Read, &engine)
            .map(|_| Outcome::Done);
    }
    prepare(&chosen, &wanted, &engine)?;
    if !arguments.foreground && !background::is_heard() {
        engine.note(NO_LOG.to_owned());
    }
    let side = detached(arguments.foreground)?;
    snapshot::start_clock();
    allocator::keep_little();
    let (told, events) = channel();
    let signalled = told.clone();
    let stop = move || _ = signalled.send(Event::Signal);
    // Before any thread starts: threads inherit what is blocked.
    let opening = signals::watch(&[], stop).context("signals")?;
    let purpose = Purpose::Mount {
        writes: Writes::of(wanted.options.read_only, wanted.writable),
        changes_are_durable: wanted.changes_are_durable,
    };
    let opened = source.open(shown, purpose, &engine)?;
    opening.done();
    let filesystem = opened.tree.filesystem;
    let status = Arc::new(Status::new("mount"));
    let http = start_http(&page, Vec::new(), &status)?;
    let described = filesystem.describe();
    let limits = filesystem.limits();
    let options = wanted.options(limits.coherence);
    if options.kernel_write_back && limits.fixed_lengths && !limits.read_only {
        engine.note(format!("{shown}: {NO_WRITE_BACK}"));
    }
    let mounted = Arc::new(pagewell_fuse::mount(filesystem, &chosen.place, &options)?);
    let shown = escape::text(mounted.place().as_os_str().as_encoded_bytes());
    let described = escape::text(described.as_bytes());
    let read_only = options.read_only || mounted.filesystem().limits().read_only;
    let inside = opened.only_file;
    let inside = inside.map(|name| how_to_reach_inside(mounted.place(), &name, read_only));
    let inside = inside.unwrap_or_default();
    let text = format!("{shown}: {described}\n{inside}to unmount it: pagewell umount {shown}\n");
    announce(&engine.notes(), &text, http.as_ref());
    status.set_notes(engine.notes());
    status.set_exports(vec![ExportStatus {
        name: shown,
        source: described,
        read_only,
        limits: String::new(),
        warnings: Vec::new(),
    }]);
    status.set_ready(true);
    let control = listen(&mounted);
    let log = say_ready(side, mounted.place())?;
    let written = serve_until_unmounted(&mounted, told, &events);
    drop(http);
    tell_ending(mounted.place(), written, control, log)
}

/// The process in the background, if wanted; the parent ends here when the child is ready.
fn detached(foreground: bool) -> anyhow::Result<Option<background::Child>> {
    if foreground {
        return Ok(None);
    }
    match background::detach().context("cannot go to the background")? {
        Side::Parent(code) => std::process::exit(code),
        Side::Child(child) => Ok(Some(child)),
    }
}

/// Looks at the place before anything is opened, and frees it.
fn prepare(chosen: &Chosen, wanted: &Wanted, engine: &Engine) -> anyhow::Result<()> {
    let folders = engine.folders(chosen.source.is_object() && !wanted.options.read_only);
    let folders = folders.iter().map(|(option, folder)| (*option, &**folder));
    mount_place::check_folders(&chosen.place, folders)?;
    mount_place::make_way(&chosen.place, &wanted.options.source)
}

/// The page cache that a mount of this source needs.
fn engine_for(
    source: &Source,
    arguments: &MountArguments,
    wanted: &Wanted,
) -> anyhow::Result<Engine> {
    let engine = wanted.engine.clone().or(&arguments.engine);
    let cache = source.kind.cache.unwrap_or(Engine::server);
    arguments.buckets.use_prices();
    Ok(cache(&engine)?.with_writing(&wanted.writing, None))
}

/// Lets the caller go on.
fn say_ready(side: Option<background::Child>, place: &Path) -> anyhow::Result<Option<SystemLog>> {
    match side {
        Some(child) => {
            let log = child.ready().context("cannot go to the background")?;
            Ok(Some(log))
        }
        None => {
            let shown = place.as_os_str().as_encoded_bytes();
            output::print(&[b"ready ", shown, b"\n"].concat())?;
            // The service manager would not believe a background process.
            let notifier = Notifier::from_environment();
            notifier.ready(&format!("mounted at {}", place.display()));
            Ok(None)
        }
    }
}

/// A line on how to reach a file system that is in the only file of a mount.
fn how_to_reach_inside(place: &Path, name: &[u8], read_only: bool) -> String {
    let file = place.join(OsStr::from_bytes(name));
    let file = mount_commands::quoted(&escape::text(file.as_os_str().as_bytes()));
    let options = if read_only { "loop,ro" } else { "loop" };
    format!(
        "it shows one file; to mount a file system that is in it: mount -o {options} {file} \
         DIRECTORY (of a partition, with offset=BYTES)\n"
    )
}

/// Reports the end to `pagewell umount`, and to the system log or the caller.
fn tell_ending(
    place: &Path,
    written: anyhow::Result<()>,
    control: Option<Control>,
    log: Option<SystemLog>,
) -> anyhow::Result<Outcome> {
    let lost = written.as_ref().err().map(one_line);
    let kept = u64::try_from(names::STAGING_JOURNALED_BYTES.get()).unwrap_or(0);
    let ended = match kept {
        0 => Ended::Written,
        bytes => Ended::Kept(bytes),
    };
    if let Some(control) = control {
        control.finish(lost.as_deref().map_or(Ok(ended), Err));
    }
    let Some(log) = log else {
        return written.map(|()| Outcome::Done);
    };
    let place = place.display();
    match &lost {
        Some(lost) => report(&format!("{place}: {lost}")),
        None if kept > 0 => report(&format!("{place}: unmounted; {}", mount_place::waits(kept))),
        None => note(&format!("{place}: unmounted, and all is written")),
    }
    log.close();
    Ok(Outcome::from_failures(u64::from(lost.is_some())))
}

/// Lets `pagewell umount` ask how the mount ends.
fn listen(mounted: &Arc<Mounted>) -> Option<Control> {
    let entry = mounted_on(mounted.place())?;
    let watched = Arc::downgrade(mounted);
    let is_used = move || watched.upgrade().is_some_and(|one| !one.has_ended());
    match Control::start(&format!("mount/{}", entry.device), is_used) {
        Ok(control) => Some(control),
        Err(error) => {
            report(&format!(
                "'pagewell umount' will not wait until all is written: {error}"
            ));
            None
        }
    }
}

/// Waits for the end of the mount, and until all is on the device.
fn serve_until_unmounted(
    mounted: &Arc<Mounted>,
    told: Sender<Event>,
    events: &Receiver<Event>,
) -> anyhow::Result<()> {
    let waiting = Arc::clone(mounted);
    std::thread::Builder::new()
        .name("mount".to_owned())
        .spawn(move || told.send(Event::Ended(waiting.wait())))
        .context("cannot start a thread")?;
    let mut ended_for = Duration::ZERO;
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Signal) => take_away(mounted),
            Ok(Event::Ended(result)) => {
                let ended = result.context("the connection to the kernel failed");
                return write_all(mounted).and(ended);
            }
            Err(RecvTimeoutError::Disconnected) => return write_all(mounted),
            Err(RecvTimeoutError::Timeout) if !mounted.has_ended() => {}
            // No caller waits for an answer any more, and yet the connection has not ended.
            Err(RecvTimeoutError::Timeout) => ended_for += TICK,
        }
        if ended_for >= ANSWER_WAIT {
            let written = write_all(mounted);
            let _ = mounted.filesystem().finish(Finish::Abandon);
            return written;
        }
    }
}

/// Unmounts because of a signal.
fn take_away(mounted: &Arc<Mounted>) {
    const ANOTHER: &str = "(another signal ends it at once)";
    match mounted.unmount(false) {
        Ok(()) => return,
        Err(UnmountError::NotMounted(_)) if mounted.has_ended() => return,
        Err(UnmountError::NotMounted(place)) => report(&format!(
            "{} was taken from its place before, and ends when its users are done {ANOTHER}",
            place.display()
        )),
        Err(UnmountError::Busy(place)) => {
            report(&format!(
                "{} is in use{}: it is taken from its place, and ends when they are done {ANOTHER}",
                place.display(),
                named_users(&place)
            ));
            if let Err(error) = mounted.unmount(true) {
                report(&error.to_string());
            }
        }
        Err(error) => report(&format!("{error} {ANOTHER}")),
    }
    // On a thread, since a server that is gone never answers.
    let mounted = Arc::clone(mounted);
    let started = std::thread::Builder::new().name("sync".to_owned());
    let started = started.spawn(move || {
        if let Err(error) = mounted.filesystem().finish(Finish::Sync) {
            report(&format!("written data is not on the device: {error}"));
        }
    });
    if let Err(error) = started {
        report(&format!("written data is not on the device yet: {error}"));
    }
}

/// Brings what was written to the device. Gives up a source that does not answer, and reports what
/// is lost.
fn write_all(mounted: &Arc<Mounted>) -> anyhow::Result<()> {
    let writing = Arc::clone(mounted);
    let slow = format!(
        "{}: unmounted; what was written is on its way to the device, which is given up when it \
         does nothing for {} s (another signal ends it at once)",
        mounted.place().display(),
        ANSWER_WAIT.as_secs()
    );
    match wait_for(
        "sync",
        move || writing.filesystem().finish(Finish::Within(ANSWER_WAIT)),
        &slow,
    )? {
        Ok(0) => Ok(()),
        Ok(lost_bytes) => {
            bail!("the source does not answer: {lost_bytes} bytes that were written are lost")
        }
        Err(error) => Err(error).context("written data is not on the device"),
    }
}

/// ` by bash (12), vi (13)`, or nothing when the users cannot be seen.
pub(crate) fn named_users(place: &Path) -> String {
    let users = users_of(place, USERS_NAMED_MAX + 1);
    if users.is_empty() {
        return String::new();
    }
    let named: Vec<String> = users
        .iter()
        .take(USERS_NAMED_MAX)
        .map(|user| format!("{} ({})", user.name, user.process))
        .collect();
    let more = if users.len() > USERS_NAMED_MAX {
        " and others"
    } else {
        ""
    };
    format!(" by {}{more}", named.join(", "))
}
