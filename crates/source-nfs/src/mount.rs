//! Mounting and unmounting.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pagewell_cache::{Cache, LENGTH_BYTES_MAX, OpenOptions, ReadAheadRule};
use pagewell_disk_tier::Tier;
use pagewell_fs::source::OpenError;
use pagewell_fs::{Coherence, FileId, Limits};
use pagewell_sunrpc::client::{
    self, CallError, Client, EncodedCredential, MountError, MountOptions, Mounted, Outgoing,
    Patience,
};
use pagewell_sunrpc::nfs3::{
    self, DecodeReply, Failure, FsinfoOk, FsinfoReply, GetattrReply, PathconfReply, Procedure,
    Reply, Status, properties,
};
use pagewell_sunrpc::rpc::Refusal;
use pagewell_sunrpc::xdr::Encode;

use super::calls::{self, Calls, lacks_procedure, whole};
use super::convert;
use super::filesystem::NfsFileSystem;
use super::objects::{Files, NODES_MAX, Objects};
use super::options::{NfsOptions, ReadAhead, TRANSFER_BYTES_MAX, TRANSFER_BYTES_MIN};
use super::remote::{MountTier, Remote, RemoteStore};
use super::root::Root;
use super::url::Url;

/// Bounds of a page of a directory, unless one entry needs more.
const DIRECTORY_BYTES_MIN: u32 = 32 << 10;
const DIRECTORY_BYTES_MAX: u32 = 256 << 10;
/// Of each step of mounting.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(10);
/// Linux's, in bytes.
const NAME_BYTES_MAX: u32 = 255;
/// Of a server without PATHCONF.
const LINKS_MAX: u32 = 32_000;
/// How long a front may keep what a name means.
const NAMES_FOR: Duration = Duration::from_secs(1);
/// How long a front may keep attributes. The kernel asks for them before each read(2): to answer
/// each time costs more than reads of cached pages.
const ATTRIBUTES_FOR: Duration = Duration::from_secs(1);

/// The server's description of the export.
struct Volume {
    root: FileId,
    filesystem_id: u64,
    information: FsinfoOk,
    limits: Limits,
    /// The least time of an answer: the window of the first read depends on it.
    latency: Duration,
}

impl NfsFileSystem {
    /// Mounts an export. Its data goes through `cache`.
    ///
    /// # Errors
    /// The export, and why: the server is unreachable, or refuses.
    pub fn mount(url: &Url, cache: &Cache) -> Result<Self, OpenError> {
        Self::mount_over(url, cache, None)
    }

    /// [`Self::mount`], with pages in a disk tier behind the cache.
    ///
    /// # Errors
    /// As [`Self::mount`].
    pub fn mount_over(
        url: &Url,
        cache: &Cache,
        tier: Option<Arc<Tier>>,
    ) -> Result<Self, OpenError> {
        let name = url.name();
        let refused = |reason: &dyn std::fmt::Display| OpenError::new(&name, &reason.to_string());
        let options = &url.options;
        if let Some(doubt) = options.doubt() {
            tracing::warn!(source = name, "{name}: {doubt}");
        }
        let mut asked = MountOptions::new(url.host.clone(), url.export.clone());
        asked.nfs_port = options.port;
        asked.mount_port = options.mount_port;
        asked.source_port = options.caller_port;
        asked.credential = options.own_credential();
        asked.timeout = options.timeout.min(MOUNT_TIMEOUT);
        let mounted = client::mount(&asked).map_err(|error| match error {
            MountError::NotGiven(text) => OpenError::no_export(&name, &text),
            error => refused(&error),
        })?;
        let mut settings = client::Options::new(url.host.clone(), mounted.addresses.clone());
        settings.connections = options.connections;
        settings.source_port = options.caller_port;
        settings.timeout = options.timeout;
        settings.delay = options.delay;
        if options.soft {
            settings.patience = Patience::Soft {
                attempts: options.attempts,
                timeout: options.soft_time(),
            };
        }
        let client = Client::connect(nfs3::PROGRAM, nfs3::VERSION, settings);
        let client = client.map_err(|error| refused(&error))?;
        let root = FileId::new(&mounted.handle)
            .ok_or_else(|| refused(&"the handle of the export is too long"))?;
        let within = MOUNT_TIMEOUT + options.delay.unwrap_or_default();
        let volume = ask_volume((&client, within), &root, options);
        let volume = volume.map_err(|unusable| match unusable {
            Unusable::Denied => refused(&mounted.denied()),
            Unusable::Version4Only => refused(&mounted.version_4_only()),
            Unusable::Other(reason) => refused(&reason),
        })?;
        let tier = tier.map(|tier| MountTier::new(tier, url));
        Ok(assemble(client, mounted, &volume, url, (cache, tier)))
    }
}

fn assemble(
    client: Client,
    mounted: Mounted,
    volume: &Volume,
    url: &Url,
    (cache, tier): (&Cache, Option<MountTier>),
) -> NfsFileSystem {
    let options = &url.options;
    let information = &volume.information;
    let calls = Arc::new(Calls::new(client, url, volume.filesystem_id));
    let files = Arc::new(Files::new(calls.clone(), NODES_MAX));
    let read_bytes = transfer(
        options.read_bytes,
        information.read_bytes_max,
        information.read_bytes_preferred,
    );
    let write_bytes = transfer(
        options.write_bytes,
        information.write_bytes_max,
        information.write_bytes_preferred,
    );
    let transfers = (read_bytes, write_bytes);
    let remote = Arc::new(Remote::new(calls.clone(), files.clone(), transfers, tier));
    let mut open = open_options(cache.open_options(), options.read_ahead, read_bytes);
    open.latency = Some(volume.latency);
    let store = cache.open_store(Arc::new(RemoteStore::new(&remote)), open);
    let root = Root::new(volume.root, mounted);
    let objects = Arc::new(Objects::new(calls, files, root));
    let preferred = information.directory_bytes_preferred;
    let directory_bytes = preferred.clamp(DIRECTORY_BYTES_MIN, DIRECTORY_BYTES_MAX);
    NfsFileSystem::new(objects, remote, store, volume.limits, directory_bytes)
}

fn open_options(mut options: OpenOptions, read_ahead: ReadAhead, read_bytes: u32) -> OpenOptions {
    let request_bytes = u64::from(read_bytes);
    options.read_ahead = match read_ahead {
        // Off for the whole cache, it stays off.
        ReadAhead::Auto if options.read_ahead == ReadAheadRule::Off => ReadAheadRule::Off,
        ReadAhead::Auto => ReadAheadRule::Server { request_bytes },
        ReadAhead::Blocks(count) => ReadAheadRule::Blocks {
            block_bytes: request_bytes,
            count,
        },
    };
    // The calls decide how long to wait.
    options.read_timeout = Duration::MAX;
    options.write_timeout = Duration::MAX;
    options
}

/// Bytes of a transfer: those asked for, else many.
fn transfer(asked: Option<u32>, most: u32, preferred: u32) -> u32 {
    let most = if most == 0 { preferred } else { most };
    let wanted = asked.unwrap_or(TRANSFER_BYTES_MAX);
    let agreed = wanted
        .min(most)
        .clamp(TRANSFER_BYTES_MIN, TRANSFER_BYTES_MAX);
    agreed - agreed % TRANSFER_BYTES_MIN
}

/// Asks what an export is, and times the answers.
struct Asking<'a> {
    client: &'a Client,
    credential: EncodedCredential,
    /// Of a question. The client of a hard mount would wait without end.
    within: Duration,
    /// Of an answer.
    latency: Duration,
}

/// Why an export that the server gave cannot be used.
#[derive(Debug, PartialEq, Eq)]
enum Unusable {
    /// The caller, often by its port.
    Denied,
    Version4Only,
    Other(String),
}

impl From<CallError> for Unusable {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(Refusal::Authentication(_)) => Self::Denied,
            CallError::Refused(refusal) if client::has_newer_versions_only(refusal) => {
                Self::Version4Only
            }
            other => Self::Other(other.to_string()),
        }
    }
}

impl Unusable {
    fn refused(procedure: Procedure, status: Status) -> Self {
        if matches!(status, Status::NotPermitted | Status::AccessDenied) {
            return Self::Denied;
        }
        let (procedure, status) = (procedure.name(), status.name());
        Self::Other(format!("{procedure}: the server answered {status}"))
    }
}

impl Asking<'_> {
    fn ask<T, F: Default>(
        &mut self,
        procedure: Procedure,
        arguments: &impl Encode,
    ) -> Result<Reply<T, F>, Unusable>
    where
        Reply<T, F>: for<'a> DecodeReply<'a> + Send + 'static,
    {
        let until = Instant::now() + self.within;
        let mut patience = calls::Patience::new(Some(until));
        loop {
            let call = Outgoing::new(procedure.number(), &self.credential, arguments);
            let (sender, receiver) = mpsc::channel();
            let began = Instant::now();
            self.client.submit(call, move |outcome| {
                // The receiver may have given up.
                let _ = sender.send(outcome.and_then(|reply| reply.decode_with(whole)));
            });
            let answer = receiver.recv_timeout(until.saturating_duration_since(began));
            let after = self.within;
            let answer = answer.unwrap_or(Err(CallError::TimedOut { after }));
            let reply: Reply<T, F> = match answer {
                Err(error) if lacks_procedure(&error) => Err(Failure {
                    status: Status::NotSupported,
                    body: F::default(),
                }),
                answer => answer?,
            };
            self.latency = self.latency.min(began.elapsed());
            if matches!(&reply, Err(failure) if failure.status == Status::Jukebox)
                && let Some(pause) = patience.next()
            {
                std::thread::sleep(pause);
                continue;
            }
            return Ok(reply);
        }
    }
}

/// A limit; 0 is none that a file system can have.
fn told(limit: Option<u32>) -> Option<u32> {
    limit.filter(|limit| *limit > 0)
}

/// Asks for the server's description of the export.
fn ask_volume(
    (client, within): (&Client, Duration),
    root: &FileId,
    options: &NfsOptions,
) -> Result<Volume, Unusable> {
    let handle = convert::handle(root);
    let mut asking = Asking {
        client,
        credential: options.own_credential(),
        within,
        latency: Duration::MAX,
    };
    let information: FsinfoReply = asking.ask(Procedure::Fsinfo, &handle)?;
    let refused = |procedure, status| Unusable::refused(procedure, status);
    let information = information.map_err(|failure| refused(Procedure::Fsinfo, failure.status))?;
    let attributes: GetattrReply = asking.ask(Procedure::Getattr, &handle)?;
    let attributes = attributes.map_err(|failure| refused(Procedure::Getattr, failure.status))?;
    let pathconf: PathconfReply = asking.ask(Procedure::Pathconf, &handle)?;
    let pathconf = pathconf.ok();
    let has = |bit| information.properties & bit != 0;
    let (grain, ages) = (information.time_grain, &options.ages);
    Ok(Volume {
        root: *root,
        filesystem_id: attributes.filesystem_id,
        information,
        latency: asking.latency,
        limits: Limits {
            read_only: options.read_only,
            file_bytes_max: match information.file_bytes_max {
                0 => LENGTH_BYTES_MAX,
                most => most.min(LENGTH_BYTES_MAX),
            },
            name_bytes_max: told(pathconf.map(|known| known.name_bytes_max))
                .map_or(NAME_BYTES_MAX, |most| most.min(NAME_BYTES_MAX)),
            links_max: if has(properties::HARD_LINKS) {
                told(pathconf.map(|known| known.links_max)).unwrap_or(LINKS_MAX)
            } else {
                1
            },
            symlinks: has(properties::SYMLINKS),
            times_settable: has(properties::TIMES_SETTABLE),
            time_grain_nanoseconds: if grain.seconds > 0 {
                1_000_000_000
            } else {
                grain.nanoseconds.clamp(1, 1_000_000_000)
            },
            case_insensitive: pathconf.is_some_and(|known| known.case_insensitive),
            // A front forgets at each open, so that programs see what an open has found.
            coherence: Coherence {
                attributes: ATTRIBUTES_FOR.min(ages.file_min).min(ages.directory_min),
                names: NAMES_FOR.min(ages.directory_min),
                missing_names: Duration::ZERO,
            },
            ..Limits::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_takes_connections_and_is_silent_is_not_waited_for_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = client::Options::new("silent", vec![listener.local_addr().unwrap()]);
        let client = Client::connect(nfs3::PROGRAM, nfs3::VERSION, settings).unwrap();
        let root = FileId::new(b"root").unwrap();
        let within = Duration::from_millis(50);
        let asked = ask_volume((&client, within), &root, &NfsOptions::default());
        let error = asked.err().unwrap();
        let words = "the server did not answer within 50ms".to_owned();
        assert_eq!(error, Unusable::Other(words));
    }

    #[test]
    fn refusals_of_the_caller_and_of_the_version_are_told_apart() {
        use pagewell_sunrpc::rpc::AuthenticationStatus;
        for (refusal, unusable) in [
            (
                Refusal::Authentication(AuthenticationStatus::TooWeak),
                Unusable::Denied,
            ),
            (
                Refusal::Authentication(AuthenticationStatus::BadCredential),
                Unusable::Denied,
            ),
            (
                Refusal::ProgramMismatch { low: 4, high: 4 },
                Unusable::Version4Only,
            ),
        ] {
            assert_eq!(Unusable::from(CallError::Refused(refusal)), unusable);
        }
        let older = CallError::Refused(Refusal::ProgramMismatch { low: 2, high: 2 });
        assert!(matches!(Unusable::from(older), Unusable::Other(_)));
        for status in [Status::AccessDenied, Status::NotPermitted] {
            let unusable = Unusable::refused(Procedure::Fsinfo, status);
            assert_eq!(unusable, Unusable::Denied);
        }
        let other = Unusable::refused(Procedure::Fsinfo, Status::Stale);
        assert!(matches!(other, Unusable::Other(_)));
    }

    #[test]
    fn transfers_are_what_both_sides_take() {
        assert_eq!(transfer(None, 1 << 20, 1 << 17), 1 << 20);
        assert_eq!(transfer(None, 1 << 26, 1 << 17), 1 << 20);
        assert_eq!(transfer(Some(65_536), 1 << 20, 1 << 20), 65_536);
        assert_eq!(transfer(Some(1 << 20), 32_768, 32_768), 32_768);
        assert_eq!(transfer(None, 0, 8192), 8192);
        assert_eq!(transfer(None, 0, 0), 1024);
        assert_eq!(transfer(None, 5000, 0), 4096);
    }
}
