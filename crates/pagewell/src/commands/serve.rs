//! `pagewell serve`.

mod closing;
mod opened;
mod reload;
mod watch;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};

use anyhow::{Context, bail};
use pagewell_base::network::Network;
use pagewell_monitor::control::Control;
use pagewell_monitor::http::server::HttpServer;
use pagewell_monitor::metrics::{Snapshot, snapshot, table};
use pagewell_monitor::status::Status;
use pagewell_nfsd::{Config, Export, LockOptions, Server};

use self::closing::{Closing, say_loss};
use self::opened::OpenExport;
use self::reload::{Reloader, Reloading};
use self::watch::Watch;
use super::serving::{self, ANSWER_WAIT, HttpArguments, start_http, wait_for};
use crate::allocator;
use crate::configuration::arguments::ServeArguments;
use crate::configuration::limits;
use crate::configuration::settings::{ExportSettings, Settings};
use crate::engine::Engine;
use crate::failure::{Outcome, note, report};
use crate::mount_commands;
use crate::output;
use crate::registration::Registration;
use crate::sandbox;
use crate::service_manager::{self, Notifier, Watchdog};
use crate::signals;
use crate::state;

const NOT_REGISTERED: &str = "cannot register with the port mapper (rpcbind)";

/// What runs until the end.
struct Running {
    server: Server,
    http: Option<HttpServer>,
    registration: Option<Registration>,
    /// Whether clients find the locks.
    locks: bool,
    /// Sources of removed exports.
    closing: Closing,
}

pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<Outcome> {
    // Before any thread starts.
    let notifier = Notifier::from_environment();
    let listeners = service_manager::inherited_listeners()?;
    snapshot::start_clock();
    let mut settings = Settings::load(arguments)?;
    settings.listen = service_manager::address_of(&listeners, settings.listen);
    // Both before any thread starts: threads inherit what is blocked.
    allocator::keep_little();
    let engine = Engine::server(&settings.engine)?;
    let state_directory = match &settings.state_dir {
        Some(directory) => directory.clone(),
        None => state::default_directory()?,
    };
    let engine = engine.with_writing(&settings.buckets.writing, Some(&state_directory));
    settings.buckets.use_prices();
    let lacks = sandbox::begin(&settings, &state_directory)?;
    let (told, stopped) = channel();
    // A request during a reload that waits is the same request.
    let (ask, asked) = sync_channel(1);
    let reload = arguments
        .config
        .is_some()
        .then(|| move || _ = ask.try_send(()));
    let stop = move || _ = told.send(());
    let opening = signals::watch_reloading(&[], stop, reload).context("signals")?;
    settings.log.begin(settings.audits())?;
    let (hosts, warnings) = settings.look_up_hosts();
    warnings.iter().for_each(|warning| report(warning));
    let opened = open_all(&settings.exports, &engine)?;
    let handle_key = state::handle_key(&state_directory)?;
    opened.iter().for_each(OpenExport::limit_dirty);
    let shown = Arc::new(Status::new("serve"));
    shown.set_client_limits(limits::shown(settings.limits));
    let watch = Watch::start(&shown, &opened, settings.http.is_some())?;
    let notes = [engine.take_notes(), lacks].concat();
    shown.set_notes(notes.clone());
    // Clients find the locks through the port mapper only.
    let records = settings
        .register
        .then(|| state::lock_records(&state_directory, settings.listen))
        .flatten();
    opening.done();
    let exports = opened.iter().map(|export| export.export(&hosts)).collect();
    let http_allow = hosts.networks(&settings.http_allow, true);
    let running = start(
        &settings,
        listeners,
        (exports, http_allow),
        handle_key,
        records,
        &shown,
    )?;
    note_user(&opened);
    let reloader = Reloader {
        arguments: arguments.clone(),
        engine,
        exports: running.server.exports(),
        address: running.server.address(),
        served: opened,
        hosts,
        entries: settings.entries,
        log: settings.log,
        closing: running.closing.clone(),
        notifier,
        shown,
        watch,
    };
    serve((running, &notes), reloader, asked, &stopped)
}

/// Reports as which user directories are used, if not each caller.
fn note_user(opened: &[OpenExport]) {
    let user = rustix::process::geteuid();
    if !user.is_root() && opened.iter().any(|export| export.is_local) {
        let uid = user.as_raw();
        note(&format!(
            "not running as root: directories are used as user {uid} for every caller"
        ));
    }
}

fn serve(
    (running, notes): (Running, &[String]),
    reloader: Reloader,
    asked: Receiver<()>,
    stopped: &Receiver<()>,
) -> anyhow::Result<Outcome> {
    let (notifier, shown) = (reloader.notifier.clone(), reloader.shown.clone());
    let served = reloader.served.iter();
    let descriptions = served.map(OpenExport::describe).collect::<Vec<_>>();
    let status = reloader.status();
    let has_file = reloader.arguments.config.is_some();
    let reloading = Reloading::new(reloader);
    let asker = reloading.clone();
    // Without it 'pagewell counters' needs an address.
    let _control = Control::start_server(Box::new(move || asker.reload()));
    let announced = announce(&running, &descriptions, notes);
    let watchdog = Watchdog::start(&notifier, running.server.pulse())?;
    let started = announced.and_then(|()| match has_file {
        true => reloading.start(asked),
        false => Ok(()),
    });
    if started.is_ok() {
        notifier.ready(&status);
        shown.set_ready(true);
        let _ = stopped.recv();
        shown.set_ready(false);
    }
    notifier.stopping();
    drop(watchdog);
    reloading.stop();
    let stopped = stop_all(running);
    started?;
    let counters = table::render(&Snapshot::take(), false);
    serving::say(&counters);
    pagewell_logging::finish();
    stopped.map(|()| Outcome::Done)
}

fn open_all(exports: &[ExportSettings], engine: &Engine) -> anyhow::Result<Vec<OpenExport>> {
    let open = |export| OpenExport::open(export, engine);
    exports.iter().map(open).collect()
}

fn start(
    settings: &Settings,
    listeners: Vec<TcpListener>,
    (exports, http_allow): (Vec<Export>, Vec<Network>),
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
    let http = start_http(&page, http_allow, status)?;
    let server = Server::start(Config {
        listen: settings.listen,
        listeners,
        threads: usize::try_from(settings.threads).unwrap_or(usize::MAX),
        locks: LockOptions {
            records: lock_records,
            // Senders learn the port through the port mapper only.
            datagrams: settings.register,
            ..LockOptions::default()
        },
        poll_for: settings.poll,
        client_limits: settings.limits,
        ..Config::new(exports, handle_key)
    })?;
    let mut running = Running {
        server,
        http,
        registration,
        locks: false,
        closing: Closing::default(),
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

/// Prints what clients need: for people first, then the one line that scripts wait for.
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
    finish(running.server, running.closing)
}

/// Stops the server and brings what was written to its devices. Gives up sources that do not
/// answer, and reports what is lost.
fn finish(server: Server, closing: Closing) -> anyhow::Result<()> {
    let slow = format!(
        "stopping: what was asked is answered, and what was written goes to the devices; one that \
         takes nothing for {} s is given up (another signal ends it at once)",
        ANSWER_WAIT.as_secs()
    );
    let stop = move || (server.stop_within(ANSWER_WAIT), closing.wait());
    let (losses, has_lost) = wait_for("stop", stop, &slow)?;
    losses.iter().for_each(say_loss);
    if losses.is_empty() && !has_lost {
        return Ok(());
    }
    bail!("what was written is not all on its device")
}
