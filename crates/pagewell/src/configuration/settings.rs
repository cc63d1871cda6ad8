//! The settings of a server, resolved: from the command line, else the file, else the default.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use pagewell_base::network::Network;
use pagewell_monitor::http::place::Place;
use pagewell_nfsd::config::POLL_FOR;
use pagewell_nfsd::{Rates, Squash};
use serde_json::{Value, json};

use super::allow::{Allowed, Hosts};
use super::arguments::{SQUASH, ServeArguments};
use super::cache::CacheKeys;
use super::file::{ConfigurationFile, ExportKeys, ExportTable};
use super::limits::LimitKeys;
use super::log::LogSettings;
use super::picker::{Entry, Picker, Section, at, some, word_of};
use super::table::At;
use super::writing::WritingKeys;
use crate::bucket_arguments::BucketArguments;
use crate::engine::EngineArguments;
use crate::export::{self, ExportArgument};
use crate::failure::usage;
use crate::sandbox_arguments::{MODES, Mode};

/// The user and the group of anonymous callers.
const ANONYMOUS: u32 = 65534;
const THREADS: u32 = 64;

pub(crate) struct Settings {
    /// Read again by reloads.
    pub(crate) config: Option<PathBuf>,
    /// Where NFS and MOUNT are served.
    pub(crate) listen: SocketAddr,
    pub(crate) threads: u32,
    pub(crate) register: bool,
    /// Where the counters are served.
    pub(crate) http: Option<Place>,
    pub(crate) http_token: Option<PathBuf>,
    /// Clients that may ask for the counters, beside this machine.
    pub(crate) http_allow: Vec<Allowed>,
    /// How long a thread looks for the next call.
    pub(crate) poll: Duration,
    /// Where keys and lists are kept; `None`: the usual place of this user.
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) sandbox: Mode,
    /// Directories below which exports may be added.
    pub(crate) sandbox_allow: Vec<PathBuf>,
    pub(crate) log: LogSettings,
    pub(crate) limits: Rates,
    pub(crate) engine: EngineArguments,
    pub(crate) buckets: BucketArguments,
    pub(crate) exports: Vec<ExportSettings>,
    /// All values to show, and where each comes from.
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct ExportSettings {
    pub(crate) argument: ExportArgument,
    /// Its name for people.
    pub(crate) label: Option<String>,
    pub(crate) read_only: bool,
    /// Let a file that is not recognised be written, too.
    pub(crate) writable: bool,
    /// Whose calls are made as the anonymous user.
    pub(crate) squash: Squash,
    pub(crate) anonymous: (u32, u32),
    /// Clients that may use it, beside this machine.
    pub(crate) allow: Vec<Allowed>,
    /// Whether to refuse this machine, unless it is named.
    pub(crate) no_loopback: bool,
    /// Serve only calls from ports of root.
    pub(crate) secure: bool,
    /// Cookies and file numbers below 2^31.
    pub(crate) cookies_32bit: bool,
    pub(crate) audit: bool,
    /// The limits of its clients together.
    pub(crate) limits: Rates,
    /// The most dirty memory; `None`: a part of the cache.
    pub(crate) dirty_bytes_max: Option<u64>,
    /// The size of a page cache of its own; `None`: that of the server.
    pub(crate) cache_bytes: Option<u64>,
}

impl Settings {
    /// The error is one mistake; further ones have been reported.
    pub(crate) fn load(arguments: &ServeArguments) -> anyhow::Result<Self> {
        let file = match &arguments.config {
            None => None,
            Some(path) => {
                Some(ConfigurationFile::read(path)?.map_err(|mistakes| mistakes.report())?)
            }
        };
        Self::resolve(arguments, file.as_ref())
    }

    pub(crate) fn resolve(
        arguments: &ServeArguments,
        file: Option<&ConfigurationFile>,
    ) -> anyhow::Result<Self> {
        let given = export::parse_all(&arguments.exports)?;
        let mut picker = Picker::new(file.map(|file| &*file.path));
        let mut settings = Self::of_server(arguments, file, &mut picker)?;
        settings.exports = exports(arguments, (given, file), &settings.log, &mut picker);
        settings.entries = picker.entries;
        settings.check_reach()?;
        Ok(settings)
    }

    fn of_server(
        arguments: &ServeArguments,
        file: Option<&ConfigurationFile>,
        picker: &mut Picker<'_>,
    ) -> anyhow::Result<Self> {
        let keys = file.map(|file| &file.server);
        let usual = file.map(|file| &file.usual);
        let text = |address: &SocketAddr| json!(address.to_string());
        let listen = (arguments.listen, keys.and_then(|keys| at(&keys.listen)));
        let listen = picker.pick("listen", listen, ([127, 0, 0, 1], 20490).into(), text);
        let threads = (arguments.threads, keys.and_then(|keys| at(&keys.threads)));
        let threads = picker.pick("threads", threads, THREADS, |count| json!(count));
        let register = (
            on(arguments.register),
            keys.and_then(|keys| at(&keys.register)),
        );
        let register = picker.pick("register", register, false, |is_on| json!(is_on));
        let (http, http_token) = of_page(arguments, file, picker);
        let allow = usual.and_then(|usual| at(&usual.allow));
        let allow = (
            Some(arguments.allow.clone()).filter(|list| !list.is_empty()),
            allow,
        );
        let http_allow = picker.pick("allow", allow, Vec::new(), |list| allow_shown(list));
        let poll = (arguments.poll, keys.and_then(|keys| at(&keys.poll)));
        let poll = picker.pick("poll", poll, POLL_FOR, poll_shown);
        let state_dir = keys.and_then(|keys| some(&keys.state_dir));
        let state_dir = (arguments.state_dir.clone().map(Some), state_dir);
        let state_dir = picker.pick("state_dir", state_dir, None, |path| json!(path));
        let cache = keys.map(|keys| &keys.cache);
        let engine = CacheKeys::resolve(cache, &arguments.engine, picker);
        let writing = keys.map(|keys| &keys.writing);
        let buckets = WritingKeys::resolve(writing, &arguments.buckets, picker);
        let (sandbox, sandbox_allow) = of_sandbox(arguments, file, picker);
        picker.section = Section::Log;
        let log = LogSettings::resolve(arguments, file.map(|file| &file.log), picker)?;
        picker.section = Section::Limits;
        let limits = LimitKeys::resolve(file.map(|file| &file.limits), picker);
        Ok(Self {
            listen,
            threads,
            register,
            http,
            http_token,
            http_allow,
            poll,
            state_dir,
            config: arguments.config.clone(),
            sandbox,
            sandbox_allow,
            log,
            limits,
            engine,
            buckets,
            exports: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// Refuses addresses that others can reach unless some list says which may.
    fn check_reach(&self) -> anyhow::Result<()> {
        let is_near = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        let refused = |option: &str, address| {
            Err(usage(format!(
                "{option} {address}: not a loopback address, so --allow CIDR must say who may \
                 connect (such as --allow 192.168.1.0/24; in a file: allow)"
            )))
        };
        let is_open = self.exports.iter().any(|export| !export.allow.is_empty());
        if !is_near(self.listen) && !is_open && !self.exports.is_empty() {
            return refused("--listen", self.listen);
        }
        match self.http.as_ref().and_then(Place::reachable) {
            Some(http) if !is_near(http) && self.http_allow.is_empty() => refused("--http", http),
            _ => Ok(()),
        }
    }

    pub(crate) fn audits(&self) -> bool {
        self.exports.iter().any(|export| export.audit)
    }

    /// Looks up the hosts in all lists. Also returns a line for each that is not found.
    pub(crate) fn look_up_hosts(&self) -> (Hosts, Vec<String>) {
        let exports = self.exports.iter().flat_map(|export| &export.allow);
        Hosts::look_up(self.http_allow.iter().chain(exports))
    }
}

impl ExportSettings {
    /// The networks that may use it; none: this machine.
    pub(crate) fn networks(&self, hosts: &Hosts) -> Vec<Network> {
        hosts.networks(&self.allow, self.no_loopback)
    }
}

/// Where the counters are served, and the file of their token.
fn of_page(
    arguments: &ServeArguments,
    file: Option<&ConfigurationFile>,
    picker: &mut Picker<'_>,
) -> (Option<Place>, Option<PathBuf>) {
    let keys = file.map(|file| &file.server);
    let given = &arguments.page;
    let http = keys.and_then(|keys| some(&keys.http));
    let http = picker.pick("http", (given.http.clone().map(Some), http), None, |http| {
        json!(http.as_ref().map(Place::to_string))
    });
    let token = keys.and_then(|keys| some(&keys.http_token));
    let token = (given.http_token.clone().map(Some), token);
    let token = picker.pick("http_token", token, None, |path| json!(path));
    (http, token)
}

/// When to use the sandbox, and the directories below which exports may be added.
fn of_sandbox(
    arguments: &ServeArguments,
    file: Option<&ConfigurationFile>,
    picker: &mut Picker<'_>,
) -> (Mode, Vec<PathBuf>) {
    let keys = file.map(|file| &file.server);
    let given = &arguments.sandbox;
    let mode = (given.sandbox, keys.and_then(|keys| at(&keys.sandbox)));
    let mode = picker.pick("sandbox", mode, Mode::default(), |one| word_of(&MODES, one));
    let allow = (
        Some(given.sandbox_allow.clone()).filter(|list| !list.is_empty()),
        keys.and_then(|keys| at(&keys.sandbox_allow)),
    );
    let allow = picker.pick("sandbox_allow", allow, Vec::new(), |list| json!(list));
    (mode, allow)
}

/// The exports of the file, then those of the command line, which replace their namesakes.
fn exports(
    arguments: &ServeArguments,
    (given, file): (Vec<ExportArgument>, Option<&ConfigurationFile>),
    log: &LogSettings,
    picker: &mut Picker<'_>,
) -> Vec<ExportSettings> {
    let tables = file.map(|file| &file.exports[..]).unwrap_or_default();
    let nothing = ExportKeys::default();
    let usual = file.map_or(&nothing, |file| &file.usual);
    let audit = |of_export: &Option<At<bool>>, picker: &mut Picker<'_>| {
        let audit = (None, at(of_export));
        picker.pick("audit", audit, log.audit.is_some(), |is_on| json!(is_on))
    };
    let mut exports = Vec::new();
    for table in tables {
        let name = &table.argument.value.name;
        if given.iter().all(|argument| argument.name != *name) {
            picker.begin(&table.argument.value, Some(lines_of(table)), false);
            let label = table.label.as_ref();
            let settings = export_settings(arguments, &table.keys.or(usual), picker);
            let audit = audit(&table.audit, picker);
            let limits = LimitKeys::resolve(Some(&table.limits), picker);
            let dirty = picker.pick("dirty", (None, some(&table.dirty)), None, |one| json!(one));
            exports.push(ExportSettings {
                argument: table.argument.value.clone(),
                label: picker.pick(
                    "label",
                    (None, label.map(|at| (Some(at.value.clone()), at.line))),
                    None,
                    |label| json!(label),
                ),
                audit,
                limits,
                dirty_bytes_max: dirty,
                cache_bytes: picker
                    .pick("cache", (None, some(&table.cache)), None, |one| json!(one)),
                ..settings
            });
        }
    }
    for argument in given {
        let replaced = tables
            .iter()
            .find(|table| table.argument.value.name == argument.name);
        picker.begin(&argument, replaced.map(lines_of), true);
        let settings = export_settings(arguments, usual, picker);
        exports.push(ExportSettings {
            argument,
            audit: audit(&None, picker),
            limits: LimitKeys::resolve(None, picker),
            dirty_bytes_max: picker.pick("dirty", (None, None), None, |one| json!(one)),
            cache_bytes: picker.pick("cache", (None, None), None, |one| json!(one)),
            ..settings
        });
    }
    exports
}

fn lines_of(table: &ExportTable) -> (usize, usize) {
    (table.argument.line, table.source_line)
}

fn export_settings(
    arguments: &ServeArguments,
    keys: &ExportKeys,
    picker: &mut Picker<'_>,
) -> ExportSettings {
    let mut flag = |key, given: bool, keys: &Option<At<bool>>| {
        picker.pick(key, (on(given), at(keys)), false, |is_on| json!(is_on))
    };
    let read_only = flag("read_only", arguments.read_only, &keys.read_only);
    let writable = flag("writable", arguments.writable, &keys.writable);
    let no_loopback = flag("no_loopback", arguments.no_loopback, &keys.no_loopback);
    let secure = flag("secure", arguments.secure, &keys.secure);
    let narrow = arguments.cookies_32bit;
    let cookies_32bit = flag("cookies_32bit", narrow, &keys.cookies_32bit);
    let squash = (arguments.squash, at(&keys.squash));
    let squash = picker.pick("squash", squash, Squash::Root, |one| word_of(&SQUASH, one));
    let mut id = |key, given: Option<u32>, keys: &Option<At<u32>>| {
        picker.pick(key, (given, at(keys)), ANONYMOUS, |id| json!(id))
    };
    let uid = id("anon_uid", arguments.anon_uid, &keys.anon_uid);
    let gid = id("anon_gid", arguments.anon_gid, &keys.anon_gid);
    let allow = Some(arguments.allow.clone()).filter(|list| !list.is_empty());
    let allow = (allow, at(&keys.allow));
    let allow = picker.pick("allow", allow, Vec::new(), |list| allow_shown(list));
    ExportSettings {
        argument: ExportArgument::nameless(),
        label: None,
        read_only,
        writable,
        squash,
        anonymous: (uid, gid),
        allow,
        no_loopback,
        secure,
        cookies_32bit,
        audit: false,
        limits: Rates::default(),
        dirty_bytes_max: None,
        cache_bytes: None,
    }
}

/// A switch of a command line, which can only be set.
fn on(is_on: bool) -> Option<bool> {
    is_on.then_some(true)
}

fn allow_shown(list: &[Allowed]) -> Value {
    json!(list.iter().map(Allowed::to_string).collect::<Vec<_>>())
}

fn poll_shown(poll: &Duration) -> Value {
    if poll.is_zero() {
        return json!("never");
    }
    if *poll == POLL_FOR {
        return json!("auto");
    }
    json!(format!("{}us", poll.as_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArguments,
    }

    fn resolved(words: &[&str], file: &str) -> anyhow::Result<Settings> {
        let words = ["pagewell", "--config", "/f.toml"]
            .into_iter()
            .chain(words.iter().copied());
        let line = Line::try_parse_from(words).unwrap();
        let file = ConfigurationFile::parse(Path::new("/f.toml"), file).unwrap();
        Settings::resolve(&line.serve, Some(&file))
    }

    fn origin(settings: &Settings, export: Option<&str>, key: &str) -> String {
        let is_it = |entry: &&Entry| entry.section.export() == export && entry.key == key;
        settings
            .entries
            .iter()
            .find(is_it)
            .unwrap()
            .origin
            .to_string()
    }

    const FILE: &str = "\
[server]
listen = \"127.0.0.1:1\"
threads = 8
secure = true
[[export]]
name = \"/a\"
source = \"ram:1m\"
read_only = true
[[export]]
name = \"/b\"
source = \"ram:2m\"
secure = false
label = \"B\"
";

    #[test]
    fn the_cache_and_its_folder_are_of_the_file_or_the_command_line() {
        let file = "[server]\ncache = \"64m\"\ncache_dir = \"pages\"\ncache_dir_size = \"1g\"\n";
        let settings = resolved(&["--cache-dir", "/other"], file).unwrap();
        assert_eq!(settings.engine.cache_bytes(), Some(64 << 20));
        assert_eq!(settings.engine.cache_dir(), Some(Path::new("/other")));
        assert_eq!(settings.engine.cache_dir_size(), Some(1 << 30));
        let settings = resolved(&[], file).unwrap();
        assert_eq!(settings.engine.cache_dir(), Some(Path::new("/pages")));
    }

    #[test]
    fn the_command_line_wins_over_the_file_and_the_file_over_defaults() {
        let words = [
            "--listen",
            "127.0.0.1:2",
            "--squash",
            "all",
            "/b=ram:3m",
            "/c=ram:4m",
        ];
        let settings = resolved(&words, FILE).unwrap();
        assert_eq!(settings.listen.port(), 2);
        assert_eq!((settings.threads, settings.poll), (8, POLL_FOR));
        let names = settings.exports.iter().map(|export| &*export.argument.name);
        assert_eq!(names.collect::<Vec<_>>(), ["/a", "/b", "/c"]);
        let texts = settings
            .exports
            .iter()
            .map(|export| export.argument.text.to_str());
        let texts: Vec<_> = texts.flatten().collect();
        assert_eq!(texts, ["ram:1m", "ram:3m", "ram:4m"]);
        let read_only: Vec<_> = settings
            .exports
            .iter()
            .map(|export| export.read_only)
            .collect();
        assert_eq!(read_only, [true, false, false]);
        assert!(
            settings
                .exports
                .iter()
                .all(|export| export.squash == Squash::All)
        );
        assert!(
            settings.exports.iter().all(|export| export.secure),
            "as [server] says"
        );
        for (export, key, from) in [
            (None, "listen", "command line, instead of /f.toml:2"),
            (None, "threads", "/f.toml:3"),
            (None, "poll", "default"),
            (Some("/a"), "source", "/f.toml:7"),
            (Some("/a"), "secure", "/f.toml:4"),
            (Some("/a"), "squash", "command line"),
            (Some("/b"), "name", "command line, instead of /f.toml:10"),
            (Some("/c"), "name", "command line"),
        ] {
            assert_eq!(origin(&settings, export, key), from, "{export:?} {key}");
        }
        let of_file = resolved(&[], FILE).unwrap();
        assert!(!of_file.exports[1].secure);
        assert_eq!(of_file.exports[1].label.as_deref(), Some("B"));
        assert_eq!(origin(&of_file, Some("/b"), "secure"), "/f.toml:12");
    }

    #[test]
    fn who_may_connect_from_elsewhere_must_be_said() {
        let open = "[server]\nlisten = \"0.0.0.0:1\"\n";
        assert!(resolved(&[], open).is_ok(), "nothing is served");
        let export = "[[export]]\nname = \"/a\"\nsource = \"ram:1m\"\n";
        let error = resolved(&[], &format!("{open}{export}")).err().unwrap();
        assert!(error.to_string().contains("--allow"), "{error}");
        let allowed = format!("{open}{export}allow = [\"10.0.0.0/8\"]\n");
        assert!(resolved(&[], &allowed).is_ok());
        let http = "[server]\nhttp = \"0.0.0.0:1\"\n";
        let error = resolved(&[], http).err().unwrap();
        assert!(error.to_string().contains("--http"), "{error}");
    }
}
