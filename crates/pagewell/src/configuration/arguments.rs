//! The command line of `pagewell serve`.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, FromArgMatches};
use pagewell_base::duration;
use pagewell_nfsd::Squash;
use pagewell_nfsd::config::POLL_FOR;

use super::allow::Allowed;
use crate::bucket_arguments::BucketArguments;
use crate::commands::serving::HttpArguments;
use crate::engine::EngineArguments;
use crate::log_arguments::{CallLogArguments, LogArguments};
use crate::sandbox_arguments::SandboxArguments;
use crate::values;

/// More threads than any storage has use for.
pub(crate) const THREADS_MAX: u32 = 4096;

/// Serve sources over NFSv3, with MOUNT on the same TCP port.
///
/// When ready, one line `ready nfs://ADDR:PORT/EXPORT ...` goes to standard output and the mount
/// commands for clients to standard error. SIGTERM, SIGINT and SIGHUP stop the server cleanly:
/// what was asked is answered, what was written is brought to the device, the counters are shown;
/// a second signal ends it at once. With --config, SIGHUP has the file read again: exports and who
/// may use them change without a client noticing, and so do limits and what the log contains; what
/// needs a restart is said.
///
/// As root, each call to a directory is made as its caller. Without root all calls are made as
/// the user who runs the server, whoever the caller is.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell serve /srv/data                         a directory, to this machine only
  pagewell serve /iso=debian.iso /tmp=ram:1g       several sources need names
  pagewell serve --cache 1g image:/dev/sdb         a block device, as one file
  pagewell serve --listen 0.0.0.0:20490 --allow 192.168.1.0/24 --read-only /srv/data
  pagewell serve --config /etc/pagewell/pagewell.toml
  pagewell serve --http 127.0.0.1:20491 /srv/data  and in another shell: pagewell counters")]
pub(crate) struct ServeArguments {
    /// Work by this file, such as /etc/pagewell/pagewell.toml; what the command line says wins over
    /// it, exports are added, and one of the same name replaces that of the file. SIGHUP has the
    /// file read again
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
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
    /// Serve clients in this network, or the host of this name, beside this machine; repeatable.
    /// ::/0 is everybody
    #[arg(long, value_name = "CIDR")]
    pub(crate) allow: Vec<Allowed>,
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
    #[arg(
        value_name = "[/EXPORT=]SOURCE",
        required_unless_present = "config",
        value_hint = clap::ValueHint::AnyPath
    )]
    pub(crate) exports: Vec<OsString>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArguments,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
    #[command(flatten)]
    pub(crate) buckets: BucketArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
    #[command(flatten)]
    pub(crate) call_log: CallLogArguments,
}

impl ServeArguments {
    /// The arguments of `--config FILE` alone.
    pub(crate) fn of_file(path: &Path) -> Self {
        let words = [
            OsStr::new("serve"),
            OsStr::new("--config"),
            path.as_os_str(),
        ];
        let command = Self::augment_args(clap::Command::new("serve"));
        let matches = command.get_matches_from(words);
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

pub(crate) const SQUASH: [(&str, Squash, &str); 3] = [
    ("none", Squash::None, "Nobody's"),
    ("root", Squash::Root, "Those of root"),
    ("all", Squash::All, "Everybody's"),
];

const POLL_FOR_MAX: Duration = Duration::from_millis(1);

/// Parses how long a thread looks for the next call.
pub(crate) fn parse_poll(text: &str) -> Result<Duration, String> {
    match text {
        "auto" => Ok(POLL_FOR),
        "never" => Ok(Duration::ZERO),
        time => duration::within(time, Duration::ZERO..=POLL_FOR_MAX)
            .map_err(|_| "auto, never, or a time up to 1ms, like 30us, is wanted".to_owned()),
    }
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
