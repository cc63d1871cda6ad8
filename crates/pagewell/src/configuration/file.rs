//! The configuration file: its keys, and what each takes.

use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use pagewell_base::files::open_regular;
use pagewell_base::size;
use pagewell_monitor::http::place::Place;
use pagewell_nfsd::Squash;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::allow::Allowed;
use super::arguments::{SQUASH, THREADS_MAX, parse_poll};
use super::cache::CacheKeys;
use super::limits::LimitKeys;
use super::log::LogKeys;
use super::mistakes::Mistakes;
use super::table::{At, Lines, Table, list, number, switch, text, text_or_number, unknown, word};
use super::writing::WritingKeys;
use crate::escape;
use crate::export::{ExportArgument, parse_name};
use crate::failure::one_line;
use crate::sandbox_arguments::{MODES, Mode};
use crate::source::Source;
use crate::values;

const FILE_BYTES_MAX: u64 = 1 << 20;
const EXPORTS_MAX: usize = 1024;
/// The most entries of a list of clients: each call looks through all of them.
const ALLOW_MAX: usize = 256;
const SANDBOX_ALLOW_MAX: usize = 64;
const ALLOW_EXAMPLE: &str = "[\"192.168.1.0/24\", \"host.example\"]";
/// The least dirty memory: a page of the cache.
const DIRTY_BYTES_MIN: u64 = 64 << 10;
const LABEL_CHARACTERS_MAX: usize = 100;

const TABLES: [&str; 5] = ["server", "log", "limits", "export", "mount"];

#[derive(Debug)]
pub(crate) struct ConfigurationFile {
    pub(crate) path: PathBuf,
    pub(crate) server: ServerKeys,
    /// Keys in `[server]` for exports that lack them.
    pub(crate) usual: ExportKeys,
    pub(crate) log: LogKeys,
    pub(crate) limits: LimitKeys,
    /// The exports, names unique.
    pub(crate) exports: Vec<ExportTable>,
}

/// Keys of `[server]` alone.
#[derive(Debug, Default)]
pub(crate) struct ServerKeys {
    pub(crate) listen: Option<At<SocketAddr>>,
    pub(crate) threads: Option<At<u32>>,
    pub(crate) register: Option<At<bool>>,
    pub(crate) http: Option<At<Place>>,
    pub(crate) http_token: Option<At<PathBuf>>,
    pub(crate) poll: Option<At<Duration>>,
    pub(crate) state_dir: Option<At<PathBuf>>,
    pub(crate) cache: CacheKeys,
    pub(crate) writing: WritingKeys,
    pub(crate) sandbox: Option<At<Mode>>,
    pub(crate) sandbox_allow: Option<At<Vec<PathBuf>>>,
}

/// Keys of `[[export]]`, and of `[server]` for all exports.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExportKeys {
    pub(crate) read_only: Option<At<bool>>,
    pub(crate) writable: Option<At<bool>>,
    pub(crate) squash: Option<At<Squash>>,
    pub(crate) anon_uid: Option<At<u32>>,
    pub(crate) anon_gid: Option<At<u32>>,
    pub(crate) allow: Option<At<Vec<Allowed>>>,
    pub(crate) no_loopback: Option<At<bool>>,
    pub(crate) secure: Option<At<bool>>,
    pub(crate) cookies_32bit: Option<At<bool>>,
}

/// An `[[export]]`.
#[derive(Clone, Debug)]
pub(crate) struct ExportTable {
    /// Its name and its source, at the line of the name.
    pub(crate) argument: At<ExportArgument>,
    pub(crate) source_line: usize,
    pub(crate) label: Option<At<String>>,
    pub(crate) audit: Option<At<bool>>,
    pub(crate) limits: LimitKeys,
    pub(crate) dirty: Option<At<u64>>,
    pub(crate) cache: Option<At<u64>>,
    pub(crate) keys: ExportKeys,
}

impl ConfigurationFile {
    /// Reads a file, and checks keys, values, and that sources are there.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Result<Self, Mistakes>> {
        Ok(Self::parse(path, &read_text(path)?))
    }

    /// Parses the text of the file at `path`, where relative paths start.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Mistakes> {
        let lines = Lines::of(text);
        let mut mistakes = Mistakes::none(path);
        let Some(document) = document(text, &lines, &mut mistakes) else {
            return mistakes
                .into_result(())
                .and_then(|()| Err(Mistakes::none(path)));
        };
        let mut file = Self {
            path: path.to_owned(),
            server: ServerKeys::default(),
            usual: ExportKeys::default(),
            log: LogKeys::default(),
            limits: LimitKeys::default(),
            exports: Vec::new(),
        };
        for (key, value) in document.get_ref() {
            let line = lines.at(&key.span());
            match (&**key.get_ref(), value.get_ref()) {
                ("server", DeValue::Table(table)) => {
                    file.read_server(Table::new("[server]", table, &lines, &mut mistakes));
                }
                ("server", _) => mistakes.add(line, "server: is a table, written [server]"),
                ("log", DeValue::Table(table)) => {
                    let table = Table::new("[log]", table, &lines, &mut mistakes);
                    file.log = LogKeys::take(table, file.directory());
                }
                ("log", _) => mistakes.add(line, "log: is a table, written [log]"),
                ("limits", DeValue::Table(table)) => {
                    let table = Table::new("[limits]", table, &lines, &mut mistakes);
                    file.limits = LimitKeys::take_all(table);
                }
                ("limits", _) => mistakes.add(line, "limits: is a table, written [limits]"),
                ("export", DeValue::Array(tables)) => {
                    file.read_exports((tables, line), &lines, &mut mistakes);
                }
                ("export", _) => mistakes.add(line, "export: each is written [[export]]"),
                // A server does not read them.
                ("mount", _) => {}
                (other, _) => mistakes.add(line, unknown(other, "", &TABLES)),
            }
        }
        mistakes.into_result(file)
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn read_server(&mut self, mut table: Table<'_>) {
        let directory = self.directory().to_owned();
        let in_directory = |path: &str| match path {
            "" => Err("a path is wanted".to_owned()),
            path => Ok(directory.join(path)),
        };
        let http_place = |text: &str| {
            values::parse_http_place(text).map(|place| match place {
                Place::Unix(path) => Place::Unix(directory.join(path)),
                place @ Place::Tcp(_) => place,
            })
        };
        self.server = ServerKeys {
            listen: table.take("listen", text(values::parse_address_and_port)),
            threads: table.take(
                "threads",
                number(|text| values::parse_count(text, THREADS_MAX)),
            ),
            register: table.take("register", switch),
            http: table.take("http", text(http_place)),
            http_token: table.take("http_token", text(&in_directory)),
            poll: table.take("poll", text(parse_poll)),
            state_dir: table.take("state_dir", text(&in_directory)),
            cache: CacheKeys::take(&mut table, in_directory),
            writing: WritingKeys::take(&mut table, in_directory),
            sandbox: table.take("sandbox", word(&MODES)),
            sandbox_allow: table.take(
                "sandbox_allow",
                list(SANDBOX_ALLOW_MAX, "[\"/srv\"]", &in_directory),
            ),
        };
        self.usual = ExportKeys::take(&mut table);
        table.end();
    }

    fn read_exports(
        &mut self,
        (tables, line): (&[Spanned<DeValue<'_>>], usize),
        lines: &Lines,
        mistakes: &mut Mistakes,
    ) {
        if tables.len() > EXPORTS_MAX {
            let count = tables.len();
            let text = format!("{count} exports, at most {EXPORTS_MAX} are served");
            return mistakes.add(line, text);
        }
        for entry in tables {
            let line = lines.at(&entry.span());
            let DeValue::Table(entries) = entry.get_ref() else {
                mistakes.add(line, "export: each is written [[export]]");
                continue;
            };
            let table = Table::new("[[export]]", entries, lines, mistakes);
            let Some(export) = read_export(table, line, self.directory()) else {
                continue;
            };
            let name = &export.argument.value.name;
            let is_same = |other: &&ExportTable| other.argument.value.name == *name;
            match self.exports.iter().find(is_same) {
                Some(first) => {
                    let first = first.argument.line;
                    let text = format!("two exports are named {name}: here and in line {first}");
                    mistakes.add(export.argument.line, text);
                }
                None => self.exports.push(export),
            }
        }
    }
}

impl ExportKeys {
    /// These, with the `usual` ones for what they leave out.
    pub(crate) fn or(&self, usual: &Self) -> Self {
        let own = self.clone();
        Self {
            read_only: own.read_only.or_else(|| usual.read_only.clone()),
            writable: own.writable.or_else(|| usual.writable.clone()),
            squash: own.squash.or_else(|| usual.squash.clone()),
            anon_uid: own.anon_uid.or_else(|| usual.anon_uid.clone()),
            anon_gid: own.anon_gid.or_else(|| usual.anon_gid.clone()),
            allow: own.allow.or_else(|| usual.allow.clone()),
            no_loopback: own.no_loopback.or_else(|| usual.no_loopback.clone()),
            secure: own.secure.or_else(|| usual.secure.clone()),
            cookies_32bit: own.cookies_32bit.or_else(|| usual.cookies_32bit.clone()),
        }
    }

    fn take(table: &mut Table<'_>) -> Self {
        Self {
            read_only: table.take("read_only", switch),
            writable: table.take("writable", switch),
            squash: table.take("squash", word(&SQUASH)),
            anon_uid: table.take("anon_uid", number(values::parse_id)),
            anon_gid: table.take("anon_gid", number(values::parse_id)),
            allow: table.take("allow", list(ALLOW_MAX, ALLOW_EXAMPLE, str::parse)),
            no_loopback: table.take("no_loopback", switch),
            secure: table.take("secure", switch),
            cookies_32bit: table.take("cookies_32bit", switch),
        }
    }
}

/// The text of a regular file of at most [`FILE_BYTES_MAX`].
pub(super) fn read_text(path: &Path) -> anyhow::Result<String> {
    let shown = || escape::text(path.as_os_str().as_encoded_bytes());
    let file = open_regular(path).with_context(shown)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(FILE_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).with_context(shown)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let most = size::display(FILE_BYTES_MAX);
        bail!(
            "{}: is longer than {most}, which is the most that is read",
            shown()
        );
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = error.as_bytes().iter().take(valid);
            let line = before.filter(|byte| **byte == b'\n').count() + 1;
            bail!("{}:{line}: is not UTF-8", shown());
        }
    }
}

/// The tables of a text, unless it is not TOML.
pub(super) fn document<'t>(
    text: &'t str,
    lines: &Lines,
    mistakes: &mut Mistakes,
) -> Option<Spanned<DeTable<'t>>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let line = error.span().map_or(1, |span| lines.at(&span));
        mistakes.add(line, error.message().replace('\n', ", "));
    }
    // A document with mistakes would bring more of the same.
    errors.is_empty().then_some(document)
}

/// The export, if the table makes sense.
fn read_export(mut table: Table<'_>, line: usize, directory: &Path) -> Option<ExportTable> {
    let name = |text: &str| {
        if !text.starts_with('/') {
            return Err("the name of an export begins with '/'".to_owned());
        }
        parse_name(text.as_bytes()).map_err(|error| one_line(&error))
    };
    let name = table.require("name", line, text(name));
    let source = |text: &str| {
        let words = |error: anyhow::Error| one_line(&error);
        let source = Source::parse(text.as_ref()).map_err(words)?;
        let source = source.in_directory(directory);
        source.check_presence().map_err(words)?;
        Ok::<_, String>((source, OsString::from(text)))
    };
    let source = table.require("source", line, text(source));
    let label = table.take("label", text(parse_label));
    let audit = table.take("audit", switch);
    let limits = LimitKeys::take(&mut table);
    let dirty = |text: &str| size::within(text, DIRTY_BYTES_MIN..=u64::MAX);
    let dirty = table.take("dirty", text_or_number(dirty));
    let cache = table.take("cache", text_or_number(size::parse_positive));
    let keys = ExportKeys::take(&mut table);
    table.end();
    let (name, source) = (name?, source?);
    let (parsed, given) = source.value;
    Some(ExportTable {
        argument: At {
            value: ExportArgument {
                name: name.value,
                source: parsed,
                text: given,
            },
            line: name.line,
        },
        source_line: source.line,
        label,
        audit,
        limits,
        dirty,
        cache,
        keys,
    })
}

fn parse_label(text: &str) -> Result<String, String> {
    let is_short = text.chars().count() <= LABEL_CHARACTERS_MAX;
    if !is_short || text.chars().any(char::is_control) {
        return Err(format!(
            "a text of at most {LABEL_CHARACTERS_MAX} characters on one line is wanted"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        let parsed = ConfigurationFile::parse(Path::new("/p/f.toml"), text);
        parsed.map_or_else(|mistakes| mistakes.lines(), |_| Vec::new())
    }

    #[test]
    fn a_file_says_what_is_served_and_to_whom() {
        let text = "\
[server]
listen = \"127.0.0.1:0\"
threads = 8
cache = \"64m\"
poll = \"never\"
squash = \"all\"

[[export]]
name = \"/a\"
source = \"ram:1m\"
label = \"Scratch\"
allow = [\"10.0.0.0/8\", \"host.example\"]
anon_uid = 7
";
        let file = ConfigurationFile::parse(Path::new("/p/f.toml"), text).unwrap();
        assert_eq!(file.server.threads, Some(At { value: 8, line: 3 }));
        assert_eq!(file.usual.squash.unwrap().value, Squash::All);
        let [export] = &file.exports[..] else {
            panic!("one export")
        };
        assert_eq!((export.argument.line, export.source_line), (9, 10));
        assert_eq!(
            export.argument.value.source,
            Source::parse("ram:1m".as_ref()).unwrap()
        );
        assert_eq!(export.keys.allow.as_ref().unwrap().value.len(), 2);
        assert_eq!(export.keys.anon_uid, Some(At { value: 7, line: 13 }));
        assert!(
            ConfigurationFile::parse(Path::new("f"), "")
                .unwrap()
                .exports
                .is_empty()
        );
    }

    #[test]
    fn the_socket_of_the_page_is_beside_the_file() {
        for (text, expected) in [("http", "/p/http"), ("/run/http", "/run/http")] {
            let text = format!("[server]\nhttp = \"unix:{text}\"");
            let file = ConfigurationFile::parse(Path::new("/p/f.toml"), &text).unwrap();
            let place = file.server.http.unwrap().value;
            assert_eq!(place, Place::Unix(expected.into()));
        }
    }

    /// The only mistake in this text is in this line.
    fn assert_one(text: &str, line: usize, part: &str) {
        let lines = mistakes(text);
        assert_eq!(lines.len(), 1, "{text}: {lines:?}");
        let place = format!("/p/f.toml:{line}: ");
        assert!(lines[0].starts_with(&place), "{text}: {lines:?}");
        assert!(lines[0].contains(part), "{text}: {lines:?}");
    }

    #[test]
    fn mistakes_in_what_is_said_of_log_and_sandbox_are_said() {
        for (text, line, part) in [
            (
                "[log]\nlevels = \"nfs=debug\"",
                2,
                "no crate 'nfs': one of audit",
            ),
            ("[log]\nlevel = 1", 2, "in [log], did you mean 'levels'?"),
            (
                "[log]\nformat = \"xml\"",
                2,
                "\"json\", \"journald\" is wanted",
            ),
            ("[log]\nslow = \"soon\"", 2, "a time is written like"),
            ("[log]\naudit = true", 2, "a text in quotes"),
            ("[[log]]\naudit = \"log\"", 1, "written [log]"),
            (
                "[server]\nsandbox = \"on\"",
                2,
                "\"auto\", \"off\", \"require\" is wanted",
            ),
            ("[server]\nsandbox_allow = \"/srv\"", 2, "[\"/srv\"]"),
            ("[server]\nsandbox_allow = [\"\"]", 2, "a path is wanted"),
        ] {
            assert_one(text, line, part);
        }
    }

    #[test]
    fn each_mistake_is_said_with_its_line() {
        let export = "[[export]]\nname = \"/a\"\nsource = \"ram:1m\"\n";
        for (text, line, part) in [
            (
                "[server]\nthreads = 0",
                2,
                "threads = 0: a number from 1 to 4096",
            ),
            ("[server]\nthreads = \"8\"", 2, "a number from 1 to"),
            ("[server]\nlisten = 5", 2, "a text in quotes"),
            ("[server]\nlisten = \"x\"", 2, "127.0.0.1:20490"),
            ("[server]\nregister = \"yes\"", 2, "true or false"),
            (
                "[server]\nsquash = \"some\"",
                2,
                "\"none\", \"root\", \"all\"",
            ),
            ("[server]\ncache = \"many\"", 2, "cache = \"many\""),
            ("[server]\nallow = \"::/0\"", 2, "a list is wanted"),
            ("[server]\nallow = [\"10.0.0.0/40\"]", 2, "10.0.0.0/40"),
            (
                "[server]\nlisen = \"x\"",
                2,
                "'lisen' in [server], did you mean 'listen'?",
            ),
            (
                "\n[sever]\n",
                2,
                "unknown key 'sever', did you mean 'server'?",
            ),
            ("server = 1", 1, "written [server]"),
            ("[export]\nname = \"/a\"", 1, "[[export]]"),
            (
                "[[export]]\nname = \"a\"\nsource = \"ram:1m\"",
                2,
                "begins with '/'",
            ),
            ("[[export]]\nsource = \"ram:1m\"", 1, "has no 'name'"),
            ("[[export]]\nname = \"/a\"", 1, "has no 'source'"),
            (
                "[[export]]\nname = \"/a\"\nsource = \"/no/such\"",
                3,
                "No such file",
            ),
            (
                "[[export]]\nname = \"/a\"\nsource = \"no/such\"",
                3,
                "/p/no/such",
            ),
            (
                "[[export]]\nname = \"/a\"\nsource = \"rom:1\"",
                3,
                "unknown kind",
            ),
            ("[server]\nthreads = 1\nthreads = 2", 3, "duplicate key"),
            ("[server\n", 1, ""),
            ("a = \n", 1, ""),
        ] {
            assert_one(text, line, part);
        }
        let twice = mistakes(&format!("{export}{export}"));
        assert_eq!(
            twice,
            ["/p/f.toml:5: two exports are named /a: here and in line 2"]
        );
    }

    #[test]
    fn keys_of_earlier_versions_are_refused_with_what_to_do() {
        for (text, part) in [
            ("[server]\nsend_path = \"map\"", "send_path is gone: "),
            ("[server]\nwrite_rule = \"sync\"", "others leave it out"),
            ("[server]\nwrite_degraded = true", "with md, LVM"),
        ] {
            assert_one(text, 2, part);
        }
    }

    #[test]
    fn mistakes_in_limits_are_said() {
        for (text, line, part) in [
            (
                "[limits]\ncalls_per_second = 0",
                2,
                "a number from 1 to 1000",
            ),
            (
                "[limits]\nbytes_per_second = \"9k\"",
                2,
                "bytes_per_second = \"9k\"",
            ),
            ("[limits]\ncalls = 5", 2, "did you mean 'calls_per_second'?"),
            ("limits = 5", 1, "written [limits]"),
            (
                "[[export]]\nname = \"/a\"\nsource = \"ram:1m\"\ndirty = 9",
                4,
                "dirty = 9: ",
            ),
        ] {
            assert_one(text, line, part);
        }
    }

    #[test]
    fn all_mistakes_are_said_up_to_a_limit() {
        let text = "[server]\nthread = 1\nsecure = 1\n[[export]]\nsquahs = \"all\"\n";
        let lines = mistakes(text);
        assert_eq!(lines.len(), 5, "{lines:?}");
        let many: String = (0..50).map(|number| format!("key{number} = 1\n")).collect();
        let lines = mistakes(&many);
        assert_eq!(lines.len(), 21);
        assert_eq!(lines[20], "/p/f.toml: 30 more mistakes");
    }

    #[test]
    fn files_that_are_no_text_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f.toml");
        let refusal = |path: &Path| one_line(&ConfigurationFile::read(path).err().unwrap());
        assert!(refusal(&path).contains("No such file"));
        assert!(refusal(directory.path()).contains("not a regular file"));
        std::fs::write(&path, b"[server]\n\xff").unwrap();
        assert!(refusal(&path).ends_with("f.toml:2: is not UTF-8"));
        std::fs::write(&path, vec![b'#'; (FILE_BYTES_MAX + 1) as usize]).unwrap();
        assert!(refusal(&path).contains("is longer than 1.0 MiB"));
        std::fs::write(&path, "").unwrap();
        assert!(ConfigurationFile::read(&path).unwrap().is_ok());
    }
}
