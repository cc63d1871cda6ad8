//! What a server works by, each value resolved: what the command line says, else the default.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use pagewell_monitor::http::place::Place;
use pagewell_nfsd::config::POLL_FOR;
use pagewell_nfsd::{Network, Squash};
use pagewell_policy::sending::Way;

use crate::commands::serve::ServeArguments;
use crate::engine::EngineArguments;
use crate::export::{self, ExportArgument};
use crate::failure::usage;
use crate::sandbox::Mode;

/// The user and the group of callers that are nobody here.
const ANONYMOUS: u32 = 65534;
/// Threads that may wait for storage.
const THREADS: u32 = 64;

/// What a server works by.
pub(crate) struct Settings {
    /// Where NFS and MOUNT are served.
    pub(crate) listen: SocketAddr,
    /// Threads that may wait for storage.
    pub(crate) threads: u32,
    /// Whether the port mapper learns the port.
    pub(crate) register: bool,
    /// Where the counters are served.
    pub(crate) http: Option<Place>,
    /// The file of the token that it asks for.
    pub(crate) http_token: Option<PathBuf>,
    /// Who may ask for the counters, beside this machine.
    pub(crate) http_allow: Vec<Network>,
    /// The way that large READs leave; `None`: the best, by measurement.
    pub(crate) send_path: Option<Way>,
    /// For how long a thread looks for the next call.
    pub(crate) poll: Duration,
    /// Where keys and lists are kept; `None`: the usual place of this user.
    pub(crate) state_dir: Option<PathBuf>,
    /// When there is a sandbox.
    pub(crate) sandbox: Mode,
    /// Directories below which exports may be added.
    pub(crate) sandbox_allow: Vec<PathBuf>,
    /// The page cache.
    pub(crate) engine: EngineArguments,
    /// What is served.
    pub(crate) exports: Vec<ExportSettings>,
}

/// What is served at one name, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct ExportSettings {
    /// Its name and its source.
    pub(crate) argument: ExportArgument,
    /// Refuse all changes.
    pub(crate) read_only: bool,
    /// Let a file that is not recognised be written, too.
    pub(crate) writable: bool,
    /// Whose calls are made as the anonymous user.
    pub(crate) squash: Squash,
    /// User and group of that one.
    pub(crate) anonymous: (u32, u32),
    /// Who may use it; empty: this machine.
    pub(crate) allow: Vec<Network>,
    /// Only from ports of root.
    pub(crate) secure: bool,
    /// Cookies and file numbers below 2^31.
    pub(crate) cookies_32bit: bool,
    /// Record what changes something.
    pub(crate) audit: bool,
}

impl Settings {
    /// The settings of this command line.
    pub(crate) fn resolve(arguments: &ServeArguments) -> anyhow::Result<Self> {
        let exports = export::parse_all(&arguments.exports)?;
        let allow = with_loopback(&arguments.allow, arguments.no_loopback);
        let settings = Self {
            listen: arguments
                .listen
                .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 20490))),
            threads: arguments.threads.unwrap_or(THREADS),
            register: arguments.register,
            http: arguments.page.http.clone(),
            http_token: arguments.page.http_token.clone(),
            http_allow: arguments.allow.clone(),
            send_path: arguments.send_path.flatten(),
            poll: arguments.poll.unwrap_or(POLL_FOR),
            state_dir: arguments.state_dir.clone(),
            sandbox: arguments.sandbox.sandbox.unwrap_or_default(),
            sandbox_allow: arguments.sandbox.sandbox_allow.clone(),
            engine: arguments.engine.clone(),
            exports: exports
                .into_iter()
                .map(|argument| ExportSettings {
                    argument,
                    read_only: arguments.read_only,
                    writable: arguments.writable,
                    squash: arguments.squash.unwrap_or_default(),
                    anonymous: (
                        arguments.anon_uid.unwrap_or(ANONYMOUS),
                        arguments.anon_gid.unwrap_or(ANONYMOUS),
                    ),
                    allow: allow.clone(),
                    secure: arguments.secure,
                    cookies_32bit: arguments.cookies_32bit,
                    audit: arguments.call_log.audits(),
                })
                .collect(),
        };
        settings.check_reach(settings.listen, "--listen")?;
        if let Some(http) = settings.http.as_ref().and_then(Place::reachable) {
            settings.check_reach(http, "--http")?;
        }
        Ok(settings)
    }

    /// Refuses an address that others can reach when it was not said which may.
    fn check_reach(&self, address: SocketAddr, option: &str) -> anyhow::Result<()> {
        if address.ip().to_canonical().is_loopback() || !self.http_allow.is_empty() {
            return Ok(());
        }
        Err(usage(format!(
            "{option} {address}: not a loopback address, so --allow CIDR must say who may connect \
             (such as --allow 192.168.1.0/24)"
        )))
    }
}

/// Networks that may use an export: to let others in is not meant to lock this machine out.
fn with_loopback(allow: &[Network], no_loopback: bool) -> Vec<Network> {
    let mut networks = allow.to_vec();
    if !networks.is_empty() && !no_loopback {
        networks.extend(Network::LOOPBACK);
    }
    networks
}
