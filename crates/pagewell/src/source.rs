//! SOURCE of the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewell_disc::DiscOptions;

use crate::engine::Engine;
use crate::failure::usage;
use crate::kinds::{self, Kind, Takes};
use crate::open::{Opened, Purpose};
use crate::storage::Storage;
use crate::storage::grammar::{parse_size, split_prefix};
use crate::{disc_spelling, escape, gone};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) kind: &'static Kind,
    /// Where its bytes are.
    pub(crate) storage: Storage,
    /// How to show it, if it is a disc.
    pub(crate) disc_options: DiscOptions,
}

impl Source {
    /// Parses a SOURCE. Looks at no file, except that `kind:rest` with an unknown kind is a path if
    /// such a file exists.
    pub(crate) fn parse(text: &OsStr) -> anyhow::Result<Self> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(usage("the name of a source is empty"));
        }
        let Some((prefix, rest)) = split_prefix(bytes) else {
            return match spelling(text) {
                Some(hint) => Err(usage(hint)),
                None => Ok(Self::of_path(text.into())),
            };
        };
        if let Some(kind) = kinds::of_prefix(prefix) {
            return Self::of_kind(kind, text, rest);
        }
        // `DIRECTORY::/PATH`: opening it finds what may be meant.
        if rest.starts_with(b":/")
            || !rest.starts_with(b"//") && Path::new(text).symlink_metadata().is_ok()
        {
            return Ok(Self::of_path(text.into()));
        }
        let shown = text.display();
        Err(usage(match (gone::advice(prefix), spelling(text)) {
            (Some(advice), _) => format!("{shown}: {advice}"),
            (_, Some(hint)) => hint,
            _ => format!(
                "{shown}: unknown kind of source '{prefix}:' and no such file (a source is one of \
                 {})",
                kinds::forms()
            ),
        }))
    }

    /// Parses what follows the prefix of the source `text`.
    fn of_kind(kind: &'static Kind, text: &OsStr, rest: &[u8]) -> anyhow::Result<Self> {
        let mut disc_options = DiscOptions::default();
        let storage = match kind.takes {
            Takes::Path | Takes::Bytes | Takes::Disc if rest.is_empty() => {
                return Err(no_path(kind.prefix));
            }
            Takes::Path => Ok(Storage::Path(OsStr::from_bytes(rest).into())),
            Takes::Bytes => parse_bytes(rest),
            Takes::Disc => parse_disc(rest, &mut disc_options),
            Takes::Size => parse_size(rest).map(Storage::Ram),
            Takes::Url(check) => parse_url(text, check).map(Storage::Url),
            Takes::Object(check) => parse_url(text, check).map(Storage::Object),
        };
        let storage = storage.map_err(|error| error.context(text.display().to_string()))?;
        Ok(Self {
            kind,
            storage,
            disc_options,
        })
    }

    /// Opens it. `shown` is the source as given.
    pub(crate) fn open(
        &self,
        shown: &str,
        purpose: Purpose,
        engine: &Engine,
    ) -> anyhow::Result<Opened> {
        let opened = (self.kind.open)(self, shown, purpose, engine)?;
        Ok(Opened {
            is_remote: self.is_remote(),
            ..opened
        })
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.kind.is_remote || self.is_object()
    }

    /// Whether its bytes are an object of a bucket or a file of a web server.
    pub(crate) fn is_object(&self) -> bool {
        matches!(self.storage, Storage::Object(_))
    }

    /// Whether its bytes may be those of a disc image.
    pub(crate) fn may_be_disc(&self) -> bool {
        match self.kind.takes {
            Takes::Disc | Takes::Object(_) => true,
            Takes::Path => self.kind == &kinds::PATH,
            Takes::Bytes | Takes::Size | Takes::Url(_) => false,
        }
    }

    /// A plain path: a directory, an ISO image or a disk image, recognised by content.
    pub(crate) fn of_path(path: PathBuf) -> Self {
        Self {
            kind: &kinds::PATH,
            storage: Storage::Path(path),
            disc_options: DiscOptions::default(),
        }
    }

    /// The path of a source without a kind.
    pub(crate) fn plain_path(&self) -> Option<&Path> {
        let is_plain = self.kind == &kinds::PATH;
        self.storage.path().ok().filter(|_| is_plain)
    }

    /// The same with relative paths in this directory.
    pub(crate) fn in_directory(self, directory: &Path) -> Self {
        let storage = match self.storage {
            Storage::Path(path) => Storage::Path(directory.join(path)),
            other @ (Storage::Ram(_) | Storage::Url(_) | Storage::Object(_)) => other,
        };
        Self { storage, ..self }
    }

    /// Refuses a path that leads to nothing. A server is not asked.
    pub(crate) fn check_presence(&self) -> anyhow::Result<()> {
        let Ok(path) = self.storage.path() else {
            return Ok(());
        };
        let present = std::fs::metadata(path).map(|_| ());
        present.with_context(|| path.display().to_string())
    }
}

/// Parses something with bytes, and takes options of a disc off its end, unless the whole names a
/// file.
fn parse_disc(bytes: &[u8], options: &mut DiscOptions) -> anyhow::Result<Storage> {
    let is_file = Path::new(OsStr::from_bytes(bytes))
        .symlink_metadata()
        .is_ok();
    match std::str::from_utf8(bytes) {
        Ok(text) if !is_file => {
            if let Some(hint) = disc_spelling::behind_iso(text) {
                return Err(usage(hint));
            }
            parse_bytes(options.take(text).map_err(usage)?.as_bytes())
        }
        _ => parse_bytes(bytes),
    }
}

/// Parses something with bytes: `PATH`, `image:PATH`, `ram:SIZE` or the URL of an object.
fn parse_bytes(bytes: &[u8]) -> anyhow::Result<Storage> {
    let path = |bytes: &[u8]| Ok(Storage::Path(OsStr::from_bytes(bytes).into()));
    let Some((prefix, rest)) = split_prefix(bytes) else {
        return path(bytes);
    };
    let kind = kinds::of_prefix(prefix);
    if let Some(Takes::Object(check)) = kind.map(|kind| kind.takes) {
        return parse_url(OsStr::from_bytes(bytes), check).map(Storage::Object);
    }
    match (prefix, kind, gone::advice(prefix)) {
        ("image", ..) if rest.is_empty() => Err(no_path(prefix)),
        ("image", ..) => path(rest),
        ("ram", ..) => parse_size(rest).map(Storage::Ram),
        (_, Some(_), _) => Err(usage(format!(
            "a '{prefix}:' source is not made of bytes: a file or device is wanted here"
        ))),
        (_, _, Some(advice)) => Err(usage(advice)),
        _ => path(bytes),
    }
}

fn parse_url(text: &OsStr, check: fn(&str) -> anyhow::Result<()>) -> anyhow::Result<String> {
    let text = text.to_str();
    let text = text.ok_or_else(|| usage("a URL is UTF-8 (write %FF for other bytes)"))?;
    check(text)?;
    Ok(text.to_owned())
}

/// The right spelling of `HOST:/EXPORT` or of `IMAGE:/PATH`; only where no such file exists nor
/// could be made.
fn spelling(text: &OsStr) -> Option<String> {
    let bytes = text.as_bytes();
    let shown = escape::text(bytes);
    if let Some(right) = right_scheme(bytes) {
        return Some(format!("{shown}: is written {}", escape::text(&right)));
    }
    if let Some(hint) = text.to_str().and_then(disc_spelling::behind_a_path) {
        return Some(format!("{shown}: {hint}"));
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
    // An address of IPv6 has colons, and stands in brackets in both.
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(byte);
    before.iter().all(is_host).then(|| {
        format!("{shown}: no such file; an export of a server is written nfs://{name}{path}")
    })
}

/// Schemes of other programs, and what they are here. Of NFS there is version 3 only.
const OTHER_SCHEMES: [(&str, &str); 13] = [
    ("nfs3://", "nfs://"),
    ("nfs4://", "nfs://"),
    ("nfsv3://", "nfs://"),
    ("nfsv4://", "nfs://"),
    ("s3a://", "s3://"),
    ("s3n://", "s3://"),
    ("gcs://", "gs://"),
    ("azure://", "az://"),
    ("azblob://", "az://"),
    ("dav://", "http://"),
    ("webdav://", "http://"),
    ("davs://", "https://"),
    ("webdavs://", "https://"),
];

/// How to write a URL of other programs here, if it can be meant.
fn right_scheme(bytes: &[u8]) -> Option<Vec<u8>> {
    for (scheme, here) in OTHER_SCHEMES {
        if let Some(rest) = bytes.strip_prefix(scheme.as_bytes()) {
            return Some([here.as_bytes(), rest].concat());
        }
    }
    // Our kinds, in capitals.
    for kind in kinds::KINDS {
        let start = kind.start();
        let written = bytes.get(..start.len()).unwrap_or_default();
        if start.ends_with("//") && written.eq_ignore_ascii_case(start.as_bytes()) {
            let rest = bytes.get(start.len()..).unwrap_or_default();
            return (written != start.as_bytes()).then(|| [start.as_bytes(), rest].concat());
        }
        // Without its colon, where no folder has that name.
        let rest = bytes.strip_prefix(kind.prefix.as_bytes());
        if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(b"//"))
            && start.ends_with("//")
            && !Path::new(kind.prefix).exists()
        {
            return Some([start.as_bytes(), rest].concat());
        }
    }
    if let Some(path) = bytes.strip_prefix(b"file://") {
        return path.starts_with(b"/").then(|| path.to_vec());
    }
    std::str::from_utf8(bytes)
        .ok()
        .and_then(disc_spelling::kind_for_tree)
        .map(String::into_bytes)
}

fn no_path(prefix: &str) -> anyhow::Error {
    usage(format!("{prefix}: a path must follow the colon"))
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
        let path = |path: &str| Storage::Path(path.into());
        for (text, prefix, storage) in [
            ("/srv/data", "", path("/srv/data")),
            ("debian.iso", "", path("debian.iso")),
            ("./odd:name", "", path("./odd:name")),
            ("C:x", "", path("C:x")),
            ("C://x", "", path("C://x")),
            ("odd name:/x", "", path("odd name:/x")),
            ("a.iso::/x", "", path("a.iso::/x")),
            ("tree::/x", "", path("tree::/x")),
            ("dir:/srv", "dir", path("/srv")),
            ("dir:a:b", "dir", path("a:b")),
            ("iso:x.iso", "iso", path("x.iso")),
            ("image:x", "image", path("x")),
            ("image:ram:4k", "image", Storage::Ram(4096)),
            ("iso:image:dir:x", "iso", path("dir:x")),
            ("iso:odd:name", "iso", path("odd:name")),
            ("ram:64m", "ram", Storage::Ram(64 << 20)),
            (
                "nfs://host:7/x?ro",
                "nfs",
                Storage::Url("nfs://host:7/x?ro".to_owned()),
            ),
        ] {
            let source = parse(text).unwrap();
            assert_eq!(
                (source.kind.prefix, source.storage),
                (prefix, storage),
                "{text}"
            );
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_a_path() {
        let odd = OsStr::from_bytes(b"dir:\xff\xfe");
        let path = OsStr::from_bytes(b"\xff\xfe");
        let parsed = |text| Source::parse(text).unwrap();
        assert_eq!(parsed(odd).storage, Storage::Path(path.into()));
        assert_eq!(parsed(path).plain_path(), Some(Path::new(path)));
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
            ("iso:image:", "a path must follow"),
            ("iso:ram:x", "a size is a number"),
            ("iso:dir:a", "a file or device is wanted"),
            ("iso:Cargo.toml?tre=rr", "'tre' is no option of a disc"),
            ("iso:Cargo.toml?tree=rr&x", "'x' is no option of a disc"),
            ("Cargo.toml?tre=rr", "iso:Cargo.toml?tree=rr may be meant"),
            ("iso:Cargo.toml?tree=best", "one of udf, rr"),
            ("udf:Cargo.toml", "written iso:Cargo.toml?tree=udf"),
            ("joliet:Cargo.toml", "written iso:Cargo.toml?tree=joliet"),
            ("image:mirror:a,b", "can be read by itself"),
            ("stripe:64k:a,b", "md, LVM, btrfs"),
            ("mirror:a,b", "md, LVM, btrfs"),
            ("model:dvd:a.iso", "pagewell bench read"),
            ("ftp://host/x", "unknown kind of source 'ftp:'"),
            ("http:///x", "no name of a host"),
            ("s3://bucket?speed=9", "no option 'speed'"),
            ("s3:/bucket", "written s3://BUCKET"),
            ("gs://bucket?region=x", "no option of gs://"),
            ("gs:/bucket", "written gs://BUCKET"),
            ("GS://bucket", "written gs://bucket"),
            ("S3://bucket", "written s3://bucket"),
            ("az:/container", "written az://CONTAINER"),
            ("az://container?region=x", "region is no option of az://"),
            ("HTTPS://host/x", "written https://host/x"),
            ("zip:x", "image:PATH"),
            ("zip:nothing-here", "unknown kind of source 'zip:'"),
            ("server:/export", "nfs://server/export"),
            ("filer.example-1:/a b", "nfs://filer.example-1/a b"),
            ("192.0.2.1:/x", "nfs://192.0.2.1/x"),
            ("[2001:db8::1]:/x", "nfs://[2001:db8::1]/x"),
            ("Cargo.toml:/x/y", "written Cargo.toml::/x/y"),
            ("nfs4://server/x", "written nfs://server/x"),
            ("file:///srv/x", "written /srv/x"),
            ("s3a://bucket/x", "written s3://bucket/x"),
            ("gcs://bucket", "written gs://bucket"),
            ("gs//bucket/x", "written gs://bucket/x"),
            ("https//host/x", "written https://host/x"),
            ("azure://container", "written az://container"),
            ("davs://host/x/", "written https://host/x/"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(exit_code_of(&error), USAGE, "{text}");
            let line = one_line(&error);
            assert!(line.contains(part) && line.contains(text), "{line}");
        }
    }
}
