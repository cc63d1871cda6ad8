//! `pagewell serve`.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use pagewell_base::duration;
use pagewell_monitor::control::Control;
use pagewell_monitor::http::server::HttpServer;
use pagewell_monitor::metrics::{Snapshot, snapshot, table};
use pagewell_monitor::status::{ExportStatus, Status};
use pagewell_nfsd::config::POLL_FOR;
use pagewell_nfsd::{Config, Export, LockOptions, Network, Server, Squash};
use pagewell_policy::sending::Way;

use super::serving::{self, ANSWER_WAIT, HttpArguments, THREADS_MAX, start_http, wait_for};
use crate::allocator;
use crate::configuration::settings::{ExportSettings, Settings};
use crate::engine::{Engine, EngineArguments};
use crate::escape;
use crate::failure::{Outcome, note, report};
use crate::log_arguments::{CallLogArguments, LogArguments};
use crate::mount_commands;
use crate::open::{self, Purpose, Writes};
use crate::output;
use crate::registration::Registration;
use crate::sandbox::{self, SandboxArguments};
use crate::service_manager::{self, Notifier, Watchdog};
use crate::signals;
use crate::state;
use crate::values;

/// Serve sources over NFSv3, with MOUNT on the same TCP port.
///
/// When ready, one line `ready nfs://ADDR:PORT/EXPORT ...` goes to standard output and the mount
/// commands for clients to standard error. SIGTERM, SIGINT and SIGHUP stop the server cleanly:
/// what was asked is answered, what was written is brought to the device, the counters are shown;
/// a second signal ends it at once.
///
/// As root, each call to a directory is made as its caller. Without root all calls are made as
/// the user who runs the server, whoever the caller is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell serve /srv/data                         a directory, to this machine only
  pagewell serve /iso=debian.iso /tmp=ram:1g       several sources need names
  pagewell serve --cache 1g image:/dev/sdb         a block device, as one file
  pagewell serve --listen 0.0.0.0:20490 --allow 192.168.1.0/24 --read-only /srv/data
  pagewell serve --http 127.0.0.1:20491 /srv/data  and in another shell: pagewell counters")]
pub(crate) struct ServeArguments {
    /// Listen here; port 0 picks one [default: 127.0.0.1:20490]. Sockets that a service manager has
    /// opened for this program (socket activation) are used instead
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::parse_address_and_port)]
    pub(crate) listen: Option<SocketAddr>,
    /// Threads that may wait for storage [default: 64]
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = |text: &str| values::parse_count(text, THREADS_MAX)
    )]
    pub(crate) threads: Option<u32>,
    /// Refuse all changes. Without it, disk images (not ISO images) that are named by their kind,
    /// as image:PATH, can be written where their permissions and this user allow it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let a file that is not recognised be written, too, as image:PATH does
    #[arg(long)]
    pub(crate) writable: bool,
    /// Whose calls are made as the anonymous user [default: root]
    #[arg(long, value_parser = values::choice(&SQUASH))]
    pub(crate) squash: Option<Squash>,
    /// User of squashed and unauthenticated callers [default: 65534]
    #[arg(long, value_name = "UID", value_parser = values::parse_id)]
    pub(crate) anon_uid: Option<u32>,
    /// Group of squashed and unauthenticated callers [default: 65534]
    #[arg(long, value_name = "GID", value_parser = values::parse_id)]
    pub(crate) anon_gid: Option<u32>,
    /// Serve clients in this network, beside this machine; repeatable. ::/0 is everybody
    #[arg(long, value_name = "CIDR")]
    pub(crate) allow: Vec<Network>,
    /// Refuse this machine's loopback addresses too, unless an --allow names them
    #[arg(long, requires = "allow")]
    pub(crate) no_loopback: bool,
    /// Serve only clients that call from a port below 1024, which on most systems only root can
    /// use: then AUTH_SYS is the word of the client machine's root, not of any of its users
    #[arg(long)]
    pub(crate) secure: bool,
    /// Register with the port mapper (rpcbind) of this machine, for clients that ask it: all that
    /// lock files across the network do
    #[arg(long)]
    pub(crate) register: bool,
    #[command(flatten)]
    pub(crate) page: HttpArguments,
    /// How large READs of files leave: what the client gets soonest and costs the server least,
    /// which each connection finds out by trying, or always in one way [default: auto]
    #[arg(long, value_name = "WAY", value_parser = values::choice(&WAYS))]
    // Named in full: not an option that may be left out.
    pub(crate) send_path: Option<std::option::Option<Way>>,
    /// For how long a thread that has answered all calls looks for the next one before it sleeps:
    /// a time like 30us, auto or never. It does so only while calls come that quickly, nothing else
    /// wants its processor and no more threads are at work than half the processors
    /// [default: auto]
    #[arg(long, value_name = "TIME", value_parser = parse_poll)]
    pub(crate) poll: Option<Duration>,
    /// Give directory cookies and file numbers below 2^31 only, for 32-bit clients
    #[arg(long)]
    pub(crate) cookies_32bit: bool,
    /// Keep the key of file handles here, and the list of clients with locks, so that clients
    /// survive a restart; without the key their handles are stale, and without the list their locks
    /// are lost [default: /var/lib/pagewell for root, else
    /// $XDG_STATE_HOME/pagewell or ~/.local/state/pagewell]
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// What to serve, and the path that clients mount (/ for a single source without one; / of
    /// several exports shows them all)
    #[arg(value_name = "[/EXPORT=]SOURCE", required = true, value_hint = clap::ValueHint::AnyPath)]
    pub(crate) exports: Vec<OsString>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArguments,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
    #[command(flatten)]
    pub(crate) call_log: CallLogArguments,
}

const SQUASH: [(&str, Squash, &str); 3] = [
    ("none", Squash::None, "Nobody's"),
    ("root", Squash::Root, "Those of root"),
    ("all", Squash::All, "Everybody's"),
];

const WAYS: [(&str, Option<Way>, &str); 4] = [
    ("auto", None, "The best, by measurement"),
    (
        "copy",
        Some(Way::Copy),
        "Copied into a buffer and sent from there",
    ),
    ("map", Some(Way::Map), "Sent from a mapping of the file"),
    (
        "splice",
        Some(Way::Splice),
        "Sent by reference from the kernel's cache (sendfile)",
    ),
];

/// The longest that is spent looking for a call.
const POLL_FOR_MAX: Duration = Duration::from_millis(1);

fn parse_poll(text: &str) -> Result<Duration, String> {
    match text {
        "auto" => Ok(POLL_FOR),
        "never" => Ok(Duration::ZERO),
        time => duration::within(time, Duration::ZERO..=POLL_FOR_MAX)
            .map_err(|_| "auto, never, or a time up to 1ms, like 30us, is wanted".to_owned()),
    }
}

const NOT_REGISTERED: &str = "cannot register with the port mapper (rpcbind)";

/// What is running, to be stopped in the end.
struct Running {
    server: Server,
    http: Option<HttpServer>,
    registration: Option<Registration>,
    /// Whether clients find the locks.
    locks: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<Outcome> {
    // Before any thread starts.
    let notifier = Notifier::from_environment();
    let listeners = service_manager::inherited_listeners()?;
    snapshot::start_clock();
    let mut settings = Settings::resolve(arguments)?;
    settings.listen = service_manager::address_of(&listeners, settings.listen);
    // Both before any thread starts: threads inherit what is blocked.
    allocator::keep_little();
    let engine = Engine::server(&settings.engine)?;
    let state_directory = match &settings.state_dir {
        Some(directory) => directory.clone(),
        None => state::default_directory()?,
    };
    let lacks = sandbox::begin(&settings, &state_directory, arguments.call_log.file())?;
    let (told, stopped) = channel();
    let opening = signals::watch(&[], move || _ = told.send(())).context("signals")?;
    arguments.log.begin_with(&arguments.call_log)?;
    let (opened, acts_as_itself) = open_all(&settings.exports, &engine)?;
    let handle_key = state::handle_key(&state_directory)?;
    let descriptions = describe(&opened);
    let shown = Arc::new(Status::new("serve"));
    shown.set_exports(statuses(&opened));
    let notes = [engine.notes(), lacks].concat();
    shown.set_notes(notes.clone());
    // Clients find the locks by the port mapper only.
    let records = settings
        .register
        .then(|| state::lock_records(&state_directory, settings.listen))
        .flatten();
    opening.done();
    let running = start(&settings, listeners, opened, handle_key, records, &shown)?;
    if acts_as_itself {
        let uid = rustix::process::geteuid().as_raw();
        note(&format!(
            "not running as root: directories are used as user {uid} for every caller"
        ));
    }
    // Without it 'pagewell counters' has to be given an address.
    let _control = Control::start("serve", || false);
    let announced = announce(&running, &descriptions, &notes);
    let watchdog = Watchdog::start(&notifier, running.server.pulse())?;
    if announced.is_ok() {
        notifier.ready(&status(&running, descriptions.len()));
        shown.set_ready(true);
        let _ = stopped.recv();
        shown.set_ready(false);
    }
    notifier.stopping();
    drop(watchdog);
    let stopped = stop_all(running);
    announced?;
    let counters = table::render(&Snapshot::take(), false);
    serving::say(&counters);
    pagewell_logging::finish();
    stopped.map(|()| Outcome::Done)
}

/// Opens all sources; tells whether one is used as this user because this user is not root.
fn open_all(exports: &[ExportSettings], engine: &Engine) -> anyhow::Result<(Vec<Export>, bool)> {
    let is_root = rustix::process::geteuid().is_root();
    let mut acts_as_itself = false;
    let mut opened = Vec::with_capacity(exports.len());
    for export in exports {
        let argument = &export.argument;
        let shown = argument.text.to_string_lossy();
        let writes = Writes::of(export.read_only, export.writable);
        let tree = open::source(&argument.source, &shown, Purpose::Serve(writes), engine)?.tree;
        acts_as_itself |= tree.is_local() && !is_root;
        opened.push(Export {
            read_only: export.read_only,
            squash: export.squash,
            anonymous: export.anonymous,
            allow: export.allow.clone(),
            secure: export.secure,
            cookies_32bit: export.cookies_32bit,
            audit: export.audit,
            ..Export::new(&argument.name, tree.filesystem)
        });
    }
    Ok((opened, acts_as_itself))
}

fn describe(exports: &[Export]) -> Vec<(String, String)> {
    let pair = |export: &Export| {
        let description = export.filesystem.describe();
        (export.name.clone(), escape::text(description.as_bytes()))
    };
    exports.iter().map(pair).collect()
}

/// What the service manager shows of it.
fn status(running: &Running, exports: usize) -> String {
    let (address, plural) = (
        running.server.address(),
        if exports == 1 { "" } else { "s" },
    );
    format!("serving {exports} export{plural} at {address}")
}

fn statuses(exports: &[Export]) -> Vec<ExportStatus> {
    let status = |export: &Export| ExportStatus {
        name: export.name.clone(),
        source: escape::text(export.filesystem.describe().as_bytes()),
        read_only: export.read_only || export.filesystem.limits().read_only,
        warnings: Vec::new(),
    };
    exports.iter().map(status).collect()
}

fn start(
    settings: &Settings,
    listeners: Vec<TcpListener>,
    exports: Vec<Export>,
    handle_key: [u8; 16],
    lock_records: Option<PathBuf>,
    status: &Arc<Status>,
) -> anyhow::Result<Running> {
    let prepared = settings.register.then(Registration::prepare);
    let registration = prepared.transpose().context(NOT_REGISTERED)?;
    let page = HttpArguments {
        http: settings.http.clone(),
        http_token: settings.http_token.clone(),
    };
    let http = start_http(&page, settings.http_allow.clone(), status)?;
    let server = Server::start(Config {
        listen: settings.listen,
        listeners,
        threads: usize::try_from(settings.threads).unwrap_or(usize::MAX),
        locks: LockOptions {
            records: lock_records,
            // Senders learn the port from the port mapper only.
            datagrams: settings.register,
            ..LockOptions::default()
        },
        send_path: settings.send_path,
        poll_for: settings.poll,
        ..Config::new(exports, handle_key)
    })?;
    let mut running = Running {
        server,
        http,
        registration,
        locks: false,
    };
    if let Err(error) = register(&mut running) {
        let _ = stop_all(running);
        return Err(error.context(NOT_REGISTERED));
    }
    Ok(running)
}

fn register(running: &mut Running) -> anyhow::Result<()> {
    let Some(registration) = &mut running.registration else {
        return Ok(());
    };
    let port = running.server.address().port();
    registration.add_served(port)?;
    match registration.add_locks(port) {
        Ok(()) => running.locks = true,
        Err(error) => report(&format!(
            "clients of this server cannot lock files across the network, and must be mounted \
             with nolock: {error:#}"
        )),
    }
    Ok(())
}

/// Says what clients need: to people first, then the one line that scripts wait for.
fn announce(
    running: &Running,
    exports: &[(String, String)],
    notes: &[String],
) -> anyhow::Result<()> {
    let address = running.server.address();
    let uname = rustix::system::uname();
    let host_name = uname.nodename().to_string_lossy();
    let (mut text, mut line) = (String::new(), String::from("ready"));
    for (name, description) in exports {
        let commands = mount_commands::for_export(address, name, &host_name, running.locks);
        text.push_str(&format!("{name}: {description}\n{commands}"));
        line.push_str(&format!(" {}", mount_commands::url(address, name)));
    }
    serving::announce(notes, &text, running.http.as_ref());
    output::print(format!("{line}\n").as_bytes())
}

fn stop_all(running: Running) -> anyhow::Result<()> {
    if let Some(registration) = &running.registration
        && let Err(error) = registration.take_back(running.server.address().port())
    {
        report(&format!(
            "cannot unregister with the port mapper: {error:#}"
        ));
    }
    drop(running.http);
    finish(running.server)
}

/// Stops the server and brings what was written to its devices. A source that does not answer is
/// not waited for without end; what is lost then is said.
fn finish(server: Server) -> anyhow::Result<()> {
    let slow = format!(
        "stopping: what was asked is answered, and what was written goes to the devices; one that \
         takes nothing for {} s is given up (another signal ends it at once)",
        ANSWER_WAIT.as_secs()
    );
    let losses = wait_for("stop", move || server.stop_within(ANSWER_WAIT), &slow)?;
    for loss in &losses {
        let export = escape::text(loss.export.as_bytes());
        report(&match &loss.result {
            Ok(bytes) => format!(
                "{export}: the source does not answer: {bytes} bytes that were written are lost"
            ),
            Err(error) => format!("{export}: written data is not on the device: {error}"),
        });
    }
    if losses.is_empty() {
        return Ok(());
    }
    bail!("what was written is not all on its device")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_has_a_limit() {
        assert_eq!(parse_poll("auto"), Ok(POLL_FOR));
        assert_eq!(parse_poll("never"), Ok(Duration::ZERO));
        assert_eq!(parse_poll("30us"), Ok(Duration::from_micros(30)));
        assert_eq!(parse_poll("1ms"), Ok(POLL_FOR_MAX));
        for bad in ["", "30", "2ms", "always"] {
            assert!(parse_poll(bad).unwrap_err().contains("30us"), "{bad}");
        }
    }
}
