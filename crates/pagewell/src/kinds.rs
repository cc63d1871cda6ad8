//! The kinds of source: one table for parsing, the cache of a mount, the sandbox, help, messages,
//! the manual and completion.

use crate::engine::{Engine, EngineArguments};
use crate::open::{self, Opened, Purpose, Writes};
use crate::source::Source;

/// Whether a kind has an option of this name behind its `?`.
pub(crate) fn is_option_of_a_source(name: &str) -> bool {
    let forms = KINDS.iter().flat_map(|kind| kind.options);
    let mut forms = forms.flat_map(|(forms, _)| forms.split(", "));
    forms.any(|form| form.split('=').next() == Some(name))
}

pub(crate) struct Kind {
    /// The text before the colon; empty for a plain path.
    pub prefix: &'static str,
    /// How to write it; capitals stand for what the user fills in.
    pub form: &'static str,
    pub help: &'static str,
    /// Sentences that the manual page adds.
    pub manual: &'static str,
    /// Options of a URL: how to write them, and what they do.
    pub options: &'static [(&'static str, &'static str)],
    pub takes: Takes,
    /// Whether a server has its objects.
    pub is_remote: bool,
    /// The page cache of a process that mounts it; `None`: it uses none.
    pub cache: Option<fn(&EngineArguments) -> anyhow::Result<Engine>>,
    /// The least wish to write for which its file is opened for writing; `None`: never.
    pub written_for: Option<Writes>,
    /// Opens it. The text is the source as given.
    pub open: fn(&Source, &str, Purpose, &Engine) -> anyhow::Result<Opened>,
}

#[derive(Clone, Copy)]
pub(crate) enum Takes {
    Path,
    /// Something with bytes: `PATH`, `image:PATH`, `ram:SIZE` or the URL of an object.
    Bytes,
    /// The same with options of a disc behind it.
    Disc,
    Size,
    /// A URL, whose prefix is its scheme. The function refuses what can never be opened.
    Url(fn(&str) -> anyhow::Result<()>),
    /// The URL of what may be one object with the bytes of an image.
    Object(fn(&str) -> anyhow::Result<()>),
}

pub(crate) static PATH: Kind = Kind {
    prefix: "",
    form: "PATH",
    help: "a directory, a disc image or a disk image, recognised by content",
    manual: "",
    options: &[],
    takes: Takes::Path,
    is_remote: false,
    cache: Some(Engine::server),
    written_for: Some(Writes::Any),
    open: |source, shown, purpose, engine| open::path(&source.storage, shown, purpose, engine),
};

static DIRECTORY: Kind = Kind {
    prefix: "dir",
    form: "dir:PATH",
    help: "a directory",
    cache: None,
    written_for: Some(Writes::Recognised),
    open: |source, _, purpose, engine| {
        open::whole_directory(source.storage.path()?, purpose, engine)
    },
    ..PATH
};

static ISO: Kind = Kind {
    prefix: "iso",
    form: "iso:PATH[?OPTION&...]",
    help: "a disc image (UDF, or ISO 9660 with Rock Ridge or Joliet), to be read",
    manual: "Quote it: ? and & mean something to a shell. A file whose name has a ? is taken as it \
             is when there is one.",
    options: &pagewell_disc::OPTIONS,
    takes: Takes::Disc,
    written_for: None,
    open: |source, shown, purpose, engine| {
        let asked = (shown, purpose);
        open::disc(&source.storage, &source.disc_options, asked, engine)
    },
    ..PATH
};

static IMAGE: Kind = Kind {
    prefix: "image",
    form: "image:PATH",
    help: "a disk image: any file or block device, as one file named after it",
    manual: "The file keeps its length.",
    takes: Takes::Bytes,
    written_for: Some(Writes::Recognised),
    open: |source, shown, purpose, engine| open::image(&source.storage, shown, purpose, engine),
    ..PATH
};

static RAM: Kind = Kind {
    prefix: "ram",
    form: "ram:SIZE",
    help: "a file system in memory, empty at first and gone with the process",
    manual: "SIZE is a number such as 1.5, with k, m, g or t for units of 1024, 1024^2, 1024^3 and \
             1024^4 bytes. Behind iso: and image: it stands for so many zeros.",
    takes: Takes::Size,
    cache: None,
    written_for: None,
    open: |source, shown, purpose, _| open::memory(source.storage.size()?, shown, purpose),
    ..PATH
};

static NFS: Kind = Kind {
    prefix: "nfs",
    form: "nfs://HOST[:PORT]/EXPORT[?OPTION&...]",
    help: "an export of another server of NFS version 3",
    manual: "The host is a name or an address, one of IPv6 in brackets ([fe80::1%25eth0]); %20 \
             stands for a space. Quote it: ? and & mean something to a shell.",
    options: &pagewell_source_nfs::OPTIONS,
    takes: Takes::Url(|text| open::nfs_url(text).map(drop)),
    is_remote: true,
    cache: Some(Engine::remote),
    written_for: None,
    open: |source, shown, purpose, engine| open::nfs(&source.storage, shown, purpose, engine),
};

static S3: Kind = Kind {
    prefix: "s3",
    form: "s3://BUCKET[/PREFIX][?OPTION&...]",
    help: "a bucket, or what is below a prefix",
    manual: "A bucket whose store loses changes is only read (--object-writes). Keys, region and \
             endpoint come from the environment and the files of the AWS tools, unless an option \
             gives them. A prefix that is an object is that object, as one file to be read. \
             iso:s3://BUCKET/KEY and image:s3://BUCKET/KEY take an object for an image.",
    options: &pagewell_source_object::OPTIONS,
    takes: Takes::Object(open::object_url),
    is_remote: true,
    cache: Some(Engine::remote),
    written_for: None,
    open: |source, shown, purpose, engine| open::objects(&source.storage, shown, purpose, engine),
};

static AZURE: Kind = Kind {
    prefix: "az",
    form: "az://CONTAINER[/PREFIX][?OPTION&...]",
    help: "a container of Azure Blob Storage, or what is below a prefix",
    manual: "As a bucket of s3://. Account, endpoint and key come from the variables \
             AZURE_STORAGE_* that the tools of Azure read, unless an option gives them; without a \
             key, a token is taken from the environment, the identity of the machine, or az.",
    options: &pagewell_source_object::AZURE_OPTIONS,
    ..S3
};

static GOOGLE: Kind = Kind {
    prefix: "gs",
    form: "gs://BUCKET[/PREFIX][?OPTION&...]",
    help: "a bucket of Google Cloud Storage, or what is below a prefix",
    manual: "As a bucket of s3://. Credentials are those of Google's tools: the file that \
             GOOGLE_APPLICATION_CREDENTIALS names, that of gcloud, or the machine's; \
             STORAGE_EMULATOR_HOST names a server that is asked instead, without any. Options are \
             those of s3:// but region, profile, path-style and raw-listings.",
    options: &[],
    ..S3
};

static HTTP: Kind = Kind {
    prefix: "http",
    form: "http://HOST[:PORT]/PATH",
    help: "a file of a web server, or a folder that it lists as data, to be read",
    manual: "A folder ends with a slash, and is listed by WebDAV or as JSON (nginx). \
             iso:http://HOST/PATH takes the file for an ISO image, of which only what is read is \
             fetched.",
    options: &[],
    ..S3
};

static HTTPS: Kind = Kind {
    prefix: "https",
    form: "https://HOST[:PORT]/PATH",
    help: "the same with TLS",
    manual: "",
    ..HTTP
};

/// All of them, in the order of lists.
pub(crate) static KINDS: [&Kind; 11] = [
    &PATH, &DIRECTORY, &ISO, &IMAGE, &RAM, &NFS, &S3, &AZURE, &GOOGLE, &HTTP, &HTTPS,
];

pub(crate) fn of_prefix(prefix: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.prefix == prefix)
}

pub(crate) fn forms() -> String {
    let forms: Vec<&str> = KINDS.iter().map(|kind| kind.form).collect();
    forms.join(", ")
}

impl Kind {
    /// What each source of it begins with: `ram:`, `nfs://`.
    pub(crate) fn start(&self) -> String {
        let slashes = match self.takes {
            Takes::Url(_) | Takes::Object(_) => "//",
            Takes::Path | Takes::Bytes | Takes::Disc | Takes::Size => "",
        };
        format!("{}:{slashes}", self.prefix)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.prefix == other.prefix
    }
}

impl Eq for Kind {}

impl std::fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.form)
    }
}

/// Columns of the forms in help.
const FORM_COLUMNS: usize = 11;
/// Columns of a line of help.
const LINE_COLUMNS: usize = 98;

/// The list of kinds in the help of the program, and of their options.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for kind in KINDS {
        text += &format!("  {:FORM_COLUMNS$} {}\n", kind.form, kind.help);
    }
    for kind in KINDS.iter().filter(|kind| !kind.options.is_empty()) {
        let mut line = format!("OPTIONs of {} are", kind.start());
        let options = kind.options.iter();
        for form in options.flat_map(|(forms, _)| forms.split(", ")) {
            if line.len() + form.len() > LINE_COLUMNS {
                text += &line;
                text.push('\n');
                line.clear();
            }
            let space = if line.is_empty() { "" } else { " " };
            line += &format!("{space}{form},");
        }
        text += line.trim_end_matches(',');
        text += ":\nsee pagewell-sources(7).\n";
    }
    text
}

/// The kinds in pagewell-sources(7), and sections on their options.
pub(crate) fn manual() -> String {
    let mut text = String::from(".SH SOURCES\n");
    for kind in KINDS {
        let help = sentence(kind.help);
        text += &paragraph(kind.form, &[&help, kind.manual].join(" "));
    }
    for kind in KINDS.iter().filter(|kind| !kind.options.is_empty()) {
        text += &format!(".SH \"OPTIONS OF {}\"\n", kind.start());
        let options = kind.options.iter();
        text.extend(options.map(|(form, does)| paragraph(form, does)));
    }
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Capitals are placeholders, in italics; other text is bold.
fn paragraph(form: &str, text: &str) -> String {
    let font = |letter: char| match letter {
        'A'..='Z' => "\\fI",
        '[' | ']' | '|' | ' ' | ',' => "\\fR",
        _ => "\\fB",
    };
    let mut marked = String::new();
    let mut last = "";
    for letter in form.chars() {
        if font(letter) != last {
            last = font(letter);
            marked += last;
        }
        marked.push(letter);
    }
    let text = text.trim_end().replace('\\', "\\e");
    format!(".TP\n{marked}\\fR\n{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_prefix_and_shown_with_it() {
        for kind in KINDS {
            assert_eq!(of_prefix(kind.prefix), Some(kind));
            assert!(kind == &PATH || kind.form.starts_with(&kind.start()));
            assert!(help().contains(kind.form) && forms().contains(kind.form));
        }
        assert_eq!(of_prefix("ftp"), None);
    }

    #[test]
    fn lists_are_laid_out() {
        let help = help();
        assert!(help.contains("  dir:PATH    a directory\n"), "{help}");
        assert!(help.lines().all(|line| line.len() <= 100), "{help}");
        let manual = manual();
        let dots = "\\fB?\\fIOPTION\\fB&...\\fR]\\fR\nAn export of another server";
        for part in [
            "\n.TP\n\\fBram:\\fISIZE\\fR\nA file system in memory, empty",
            dots,
            ".SH \"OPTIONS OF nfs://\"\n.TP\n\\fBport=\\fIN\\fR, \\fBmountport=\\fIN\\fR\n",
        ] {
            assert!(manual.contains(part), "{manual} lacks {part}");
        }
    }
}
