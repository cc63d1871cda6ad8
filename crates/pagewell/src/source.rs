//! What a SOURCE on the command line means, and how it becomes a file system.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewell_source_nfs::Url;

use crate::escape;
use crate::failure::usage;
use crate::recognise::{SourceKind, recognise};
use crate::storage::Storage;
use crate::storage::grammar::{kind_of, parse_size};

/// The kinds of source that this version opens, for messages.
pub(crate) const SUPPORTED: &str = "a path to a directory, an ISO image or a disk image, dir:PATH, \
     iso:PATH, image:PATH, ram:SIZE, nfs://HOST[:PORT]/EXPORT";

/// A source, parsed and not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A path: a directory, an ISO image or a disk image, recognised by content.
    Path(PathBuf),
    /// `dir:PATH`.
    Directory(PathBuf),
    /// `iso:STORAGE`.
    Iso(Storage),
    /// `image:STORAGE`: one file, whatever is in it.
    Image(Storage),
    /// `ram:SIZE`, in bytes.
    Ram(u64),
    /// `nfs://HOST[:PORT]/EXPORT[?OPTION&...]`.
    Nfs(Box<Url>),
}

impl Source {
    /// Parses a SOURCE. Looks at no file, except that a text such as `kind:rest` with a kind
    /// that is not known counts as a path if there is such a file.
    pub(crate) fn parse(text: &OsStr) -> anyhow::Result<Self> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(usage("the name of a source is empty"));
        }
        let Some((kind, rest)) = kind_of(bytes) else {
            return match spelling(text) {
                Some(hint) => Err(usage(hint)),
                None => Ok(Self::Path(text.into())),
            };
        };
        let path = || {
            if rest.is_empty() {
                return Err(usage(format!("{kind}: a path must follow the colon")));
            }
            Ok(PathBuf::from(OsString::from_vec(rest.to_vec())))
        };
        let named = |error: anyhow::Error| error.context(text.display().to_string());
        let storage = |bytes: &[u8]| Storage::parse(bytes).map_err(named);
        match kind {
            "dir" => Ok(Self::Directory(path()?)),
            "iso" | "image" if rest.is_empty() => path().map(Self::Path),
            "iso" => storage(rest).map(Self::Iso),
            "image" => storage(rest).map(Self::Image),
            "stripe" | "mirror" | "model" => storage(bytes).map(Self::Image),
            "ram" => parse_size(rest).map_err(named).map(Self::Ram),
            "nfs" => parse_url(text).map_err(named).map(Self::Nfs),
            // `DIRECTORY::/PATH`: what opens it knows what may be meant.
            _ if rest.starts_with(b":/") => Ok(Self::Path(text.into())),
            _ if !rest.starts_with(b"//") && Path::new(text).symlink_metadata().is_ok() => {
                Ok(Self::Path(text.into()))
            }
            _ => Err(usage(spelling(text).unwrap_or_else(|| {
                let shown = text.display();
                format!(
                    "{shown}: unknown kind of source '{kind}:' and no such file (a source is \
                     {SUPPORTED})"
                )
            }))),
        }
    }
}

impl Source {
    /// The same with relative paths in this directory.
    pub(crate) fn in_directory(self, directory: &Path) -> Self {
        match self {
            Self::Path(path) => Self::Path(directory.join(path)),
            Self::Directory(path) => Self::Directory(directory.join(path)),
            Self::Iso(storage) => Self::Iso(storage.in_directory(directory)),
            Self::Image(storage) => Self::Image(storage.in_directory(directory)),
            other @ (Self::Ram(_) | Self::Nfs(_)) => other,
        }
    }

    /// Refuses a path that leads to nothing.
    pub(crate) fn check_presence(&self) -> anyhow::Result<()> {
        let path = match self {
            Self::Path(path) | Self::Directory(path) => path,
            Self::Iso(Storage::Path(path)) | Self::Image(Storage::Path(path)) => path,
            // Parts of storage may be missing, and servers be silent: who opens them knows.
            Self::Iso(_) | Self::Image(_) | Self::Ram(_) | Self::Nfs(_) => return Ok(()),
        };
        let present = std::fs::metadata(path).map(|_| ());
        present.with_context(|| path.display().to_string())
    }
}

/// The right spelling of what looks like `HOST:/EXPORT`, as mount(8) has it, or `IMAGE:/PATH`; only
/// where no such file is there nor could be made.
fn spelling(text: &OsStr) -> Option<String> {
    let bytes = text.as_bytes();
    let shown = escape::text(bytes);
    if let Some(right) = right_scheme(bytes) {
        return Some(format!("{shown}: is written {}", escape::text(&right)));
    }
    let at = bytes.windows(2).position(|pair| pair == b":/")?;
    let (before, path) = (&bytes[..at], &bytes[at + 1..]);
    let above = Path::new(text).parent()?;
    let is_pair = before.is_empty() || before.ends_with(b":") || path.starts_with(b"//");
    if is_pair || above.exists() {
        return None;
    }
    let (name, path) = (escape::text(before), escape::text(path));
    if Path::new(OsStr::from_bytes(before)).exists() {
        return Some(format!(
            "{shown}: no such file; what is inside {name} is written {name}::{path} (to serve or \
             mount it, give all of {name})"
        ));
    }
    // An address of IPv6 has colons of its own, and stands in brackets in both.
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(byte);
    before.iter().all(is_host).then(|| {
        format!("{shown}: no such file; an export of a server is written nfs://{name}{path}")
    })
}

/// What a URL is written as that other programs take, if it can be meant: of NFS there is version 3
/// only, and what is on this machine is a path.
fn right_scheme(bytes: &[u8]) -> Option<Vec<u8>> {
    for scheme in [&b"nfs3://"[..], b"nfs4://", b"nfsv3://", b"nfsv4://"] {
        if let Some(rest) = bytes.strip_prefix(scheme) {
            return Some([b"nfs://", rest].concat());
        }
    }
    let path = bytes.strip_prefix(b"file://")?;
    path.starts_with(b"/").then(|| path.to_vec())
}

/// What is not there but has the name of something at its beginning: that, and the place inside it
/// that may be meant. `IMAGE/PATH`, `IMAGE:PATH` and `IMAGE::PATH` are all taken so.
pub(crate) fn meant_inside(path: &Path) -> Option<(&Path, &[u8])> {
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let bytes = path.as_os_str().as_bytes();
    let is_end = |(at, byte): (usize, &u8)| b":/".contains(byte).then_some(at);
    let ends = bytes.iter().enumerate().filter_map(is_end);
    ends.filter_map(|at| bytes.split_at_checked(at))
        .find_map(|(before, behind)| {
            let whole = Path::new(OsStr::from_bytes(before));
            let first = behind.iter().position(|byte| !b":/".contains(byte))?;
            let inside = behind.get(first..)?;
            let is_source = match recognise(whole).ok()? {
                // What is in a directory is written with a slash, and is not there.
                SourceKind::Directory => behind.starts_with(b":"),
                SourceKind::Iso => true,
                SourceKind::Unsupported(_) | SourceKind::Other => false,
            };
            is_source.then_some((whole, inside))
        })
}

fn parse_url(text: &OsStr) -> anyhow::Result<Box<Url>> {
    let text = text.to_str();
    let text = text.ok_or_else(|| usage("a URL is UTF-8 (write %FF for other bytes)"))?;
    let url = Url::parse(text).map_err(|error| usage(error.to_string()))?;
    Ok(Box::new(url))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, exit_code_of, one_line};

    fn parse(text: &str) -> anyhow::Result<Source> {
        Source::parse(OsStr::new(text))
    }

    #[test]
    fn kinds_are_told_by_their_prefix() {
        for (text, source) in [
            ("/srv/data", Source::Path("/srv/data".into())),
            ("debian.iso", Source::Path("debian.iso".into())),
            ("./odd:name", Source::Path("./odd:name".into())),
            ("C:x", Source::Path("C:x".into())),
            ("C://x", Source::Path("C://x".into())),
            ("odd name:/x", Source::Path("odd name:/x".into())),
            ("a.iso::/x", Source::Path("a.iso::/x".into())),
            ("tree::/x", Source::Path("tree::/x".into())),
            ("dir:/srv", Source::Directory("/srv".into())),
            ("dir:a:b", Source::Directory("a:b".into())),
            ("iso:x.iso", Source::Iso(Storage::Path("x.iso".into()))),
            ("image:x", Source::Image(Storage::Path("x".into()))),
            ("image:ram:4k", Source::Image(Storage::Ram(4096))),
            ("ram:64m", Source::Ram(64 << 20)),
            (
                "nfs://host:7/x?ro",
                Source::Nfs(Box::new(Url::parse("nfs://host:7/x?ro").unwrap())),
            ),
        ] {
            assert_eq!(parse(text).unwrap(), source, "{text}");
        }
    }

    #[test]
    fn what_is_inside_a_source_may_be_meant() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut image = vec![0u8; 20 * 2048];
        image[32768..32774].copy_from_slice(b"\x01CD001");
        std::fs::write(at("a.iso"), image).unwrap();
        std::fs::write(at("text"), "x").unwrap();
        std::fs::create_dir(at("tree")).unwrap();
        for (name, whole) in [
            ("a.iso/x/y", Some("a.iso")),
            ("a.iso:x/y", Some("a.iso")),
            ("a.iso::x/y", Some("a.iso")),
            ("a.iso::/x/y", Some("a.iso")),
            ("tree::/x/y", Some("tree")),
            ("tree/x/y", None),
            ("text/x/y", None),
            ("nothing:x/y", None),
            ("a.iso", None),
            ("a.iso/", None),
        ] {
            let path = at(name);
            let whole = whole.map(at);
            let expected = whole.as_deref().map(|whole| (whole, &b"x/y"[..]));
            assert_eq!(meant_inside(&path), expected, "{name}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_a_path() {
        let odd = OsStr::from_bytes(b"dir:\xff\xfe");
        let path = OsStr::from_bytes(b"\xff\xfe");
        assert_eq!(Source::parse(odd).unwrap(), Source::Directory(path.into()));
        assert_eq!(Source::parse(path).unwrap(), Source::Path(path.into()));
    }

    #[test]
    fn what_cannot_be_a_source_is_a_usage_error_that_names_it() {
        for (text, part) in [
            ("", "empty"),
            ("dir:", "a path must follow"),
            ("ram:", "a size is a number"),
            ("ram:0", "the size is 0"),
            ("ram:12q", "a size is a number"),
            ("nfs:host/export", "begins with nfs://"),
            ("nfs://host/x?size=3", "unknown option 'size'"),
            ("nfs:///x", "host is missing"),
            ("image:", "a path must follow"),
            ("stripe:64k:a,b", "md, LVM, btrfs"),
            ("mirror:a,b", "md, LVM, btrfs"),
            ("model:dvd:a.iso", "pagewell bench read"),
            ("http://host/x", "unknown kind of source 'http:'"),
            ("zip:x", "image:PATH"),
            ("zip:nothing-here", "unknown kind of source 'zip:'"),
            ("server:/export", "nfs://server/export"),
            ("filer.example-1:/a b", "nfs://filer.example-1/a b"),
            ("192.0.2.1:/x", "nfs://192.0.2.1/x"),
            ("[2001:db8::1]:/x", "nfs://[2001:db8::1]/x"),
            ("Cargo.toml:/x/y", "written Cargo.toml::/x/y"),
            ("nfs4://server/x", "written nfs://server/x"),
            ("file:///srv/x", "written /srv/x"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(exit_code_of(&error), USAGE, "{text}");
            let line = one_line(&error);
            assert!(line.contains(part) && line.contains(text), "{line}");
        }
    }
}
