//! Opens what a URL names: a bucket or folder as a tree, or one object.

use std::sync::{Arc, mpsc};
use std::time::{Instant, SystemTime};

use pagewell_cache::Cache;
use pagewell_disk_tier::Tier;
use pagewell_fs::source::OpenError;
use pagewell_object_client::{
    Error as RemoteError, ListQuery, Location, Options, Remote, Sink, Version,
};

use super::data::Data;
use super::device::ObjectDevice;
use super::directory::PAGE_ENTRIES;
use super::filesystem::ObjectFileSystem;
use super::identifier::KeyHasher;
use super::tree::Tree;
use super::writing::Writing;

/// Options of the URL of a bucket: their form, and what they do.
pub const OPTIONS: [(&str, &str); 14] = [
    (
        "endpoint=URL, region=NAME, path-style=BOOLEAN",
        "The server, where it is not the cloud's; the region that requests are signed for; and \
         whether the bucket is in the path (default, except at AWS) or in the name of the host.",
    ),
    (
        "profile=NAME, anonymous=true",
        "The profile of the files of the AWS tools; no signature or token at all.",
    ),
    (
        "age=TIME",
        "How long a listing, and what was seen of an object, is believed. Default: 10s.",
    ),
    (
        "ack=store|journal",
        "What fsync, close and COMMIT wait for: the store (default), or the staging folder on this \
         machine, from which it is uploaded within seconds, also after a crash.",
    ),
    (
        "metadata=listing|objects",
        "Where mode, owner and times of files come from: listings, which have the time of the \
         change alone (default), or the metadata of each object, by a request for each. What is \
         set here is shown here either way, and written with the bytes.",
    ),
    (
        "uid=N, gid=N, mode=MODE, dmode=MODE",
        "Owner, group and permissions of files, and permissions of directories, of which nothing \
         is known. Default: those of the program, 0644 and 0755.",
    ),
    (
        "open=ask|believe",
        "Whether an open asks for the version of a file that memory has (default), or believes \
         what was seen for age=; files that are read in the order of their directory then come \
         early.",
    ),
    (
        "rename=copy|off, rename-size=SIZE, rename-files=N",
        "A rename copies inside the store, of a directory at most so many bytes (default: 64g) and \
         files (1000); beyond, and with off, it fails with EXDEV, and mv copies by itself.",
    ),
    (
        "retry=TIME",
        "How long a request that fails is made again. Default: 60s.",
    ),
    (
        "stall=TIME",
        "How long a connection may bring nothing before it is given up. Default: 30s.",
    ),
    (
        "connect=TIME",
        "How long a connection may take to be made. Default: 10s.",
    ),
    (
        "connections=N",
        "TCP connections to a host, 1 to 1024. Default: 64.",
    ),
    ("ca=FILE", "More certificates (PEM) to trust."),
    (
        "raw-listings=true",
        "Take keys in listings as they are, though the server says that it has encoded them.",
    ),
];

/// The options of a container of Azure, in the same form.
pub const AZURE_OPTIONS: [(&str, &str); 12] = [
    (
        "account=NAME, endpoint=URL, path-style=BOOLEAN",
        "The account; the server, where it is not that of the account; and whether the account is \
         in the path (default, where the name of the host does not have it).",
    ),
    (
        "key-file=FILE, anonymous=true",
        "A file with the key of the account, a signature (SAS) or a connection string, or no \
         signature at all.",
    ),
    OPTIONS[2],
    OPTIONS[3],
    OPTIONS[4],
    OPTIONS[5],
    OPTIONS[6],
    OPTIONS[7],
    OPTIONS[8],
    OPTIONS[9],
    OPTIONS[10],
    OPTIONS[11],
];

/// The message where nothing in a bucket has the name of the URL.
pub const NO_OBJECT: &str = "there is no such object or folder";

/// What a URL names.
pub enum Opened {
    /// A bucket or a folder.
    Tree(ObjectFileSystem),
    /// One object.
    Object(OpenedObject),
}

/// One object, as it was when it was opened.
pub struct OpenedObject {
    /// Its bytes.
    pub device: ObjectDevice,
    /// The last part of its key.
    pub name: Vec<u8>,
    /// Tells this version from all other objects.
    pub identity: [u8; 16],
    /// The time of its last change by its server.
    pub modified: Option<SystemTime>,
    /// Whether two versions may look alike: the server gives no strong tag.
    pub is_weak: bool,
}

/// Refuses a URL that can never be opened.
///
/// # Errors
/// What is wrong, without the URL.
pub fn check(url: &str) -> Result<(), String> {
    let parsed = parse(url).map(drop);
    parsed.map_err(|error| error.behind(&shown(url)))
}

/// Whether a URL names a bucket or a container, which can be changed.
#[must_use]
pub fn is_bucket(url: &str) -> bool {
    parse(url).is_ok_and(|(location, _)| location.bucket().is_some())
}

fn parse(url: &str) -> Result<(Location, Options), RemoteError> {
    let mut options = Options::default();
    let location = Location::parse(url, &mut options)?;
    Ok((location, options))
}

/// Without a query, which may hold a signature or a password.
fn shown(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

fn refused(url: &str, error: &RemoteError) -> OpenError {
    let name = shown(url);
    OpenError::new(&name, &error.behind(&name))
}

/// Opens what the URL names: a bucket to be changed with `writing`, all else to be read.
///
/// # Errors
/// With the URL and the reason.
pub fn open(
    url: &str,
    cache: &Cache,
    tier: Option<Arc<Tier>>,
    writing: Option<Writing>,
) -> Result<Opened, OpenError> {
    let refused = |error: RemoteError| refused(url, &error);
    let (location, options) = parse(url).map_err(refused)?;
    let remote = pagewell_object_client::open(url, &Options::default()).map_err(refused)?;
    let prefix = location.prefix();
    let is_folder = prefix.is_empty() || prefix.ends_with('/');
    if !is_folder {
        match one_object(&remote, (url, &location), tier.clone()) {
            Ok(object) => return Ok(Opened::Object(object)),
            Err(RemoteError::NotFound) if location.bucket().is_some() => {}
            Err(error) => return Err(refused(error)),
        }
    }
    let slash = if is_folder { "" } else { "/" };
    let prefix = format!("{prefix}{slash}");
    let began = Instant::now();
    let page = remote.list(&ListQuery {
        prefix: &prefix,
        delimiter: true,
        token: None,
        page_entries_max: PAGE_ENTRIES,
    });
    let page = page.map_err(refused)?;
    if !is_folder && page.objects.is_empty() && page.prefixes.is_empty() {
        return Err(OpenError::new(&shown(url), NO_OBJECT));
    }
    let bucket = location.bucket().unwrap_or_else(|| remote.describe());
    let of = (&*bucket, &*prefix);
    let writing = writing.filter(|_| remote.as_writable().is_some());
    let Some(writing) = writing else {
        let data = Data::new(remote, cache, tier, None);
        let tree = Tree::new(data, of, &options.handling).with_first_page(page, began);
        return Ok(Opened::Tree(ObjectFileSystem::of(tree)));
    };
    let describe = remote.describe();
    let staged = writing.stage(&describe, &prefix)?;
    let data = Data::new(remote, cache, tier, Some(staged.staging.clone()));
    let tree = Tree::new(data, of, &options.handling).with_first_page(page, began);
    let tree = Arc::new(tree);
    let writer = writing.start(url, &tree, &options.handling, staged);
    Ok(Opened::Tree(ObjectFileSystem::with_writer(writer)))
}

/// Opens the one object that the URL names.
///
/// # Errors
/// With the URL and the reason.
pub fn open_object(url: &str, tier: Option<Arc<Tier>>) -> Result<OpenedObject, OpenError> {
    let refused = |error: RemoteError| refused(url, &error);
    let (location, _) = parse(url).map_err(refused)?;
    if location.bucket().is_some() && location.prefix().is_empty() {
        let text = "this names a bucket, where one object in it is wanted";
        return Err(OpenError::new(&shown(url), text));
    }
    let remote = pagewell_object_client::open(url, &Options::default()).map_err(refused)?;
    one_object(&remote, (url, &location), tier).map_err(refused)
}

fn one_object(
    remote: &Arc<dyn Remote>,
    (url, location): (&str, &Location),
    tier: Option<Arc<Tier>>,
) -> Result<OpenedObject, RemoteError> {
    let key = location.prefix();
    let place = match location.bucket() {
        Some(_) => remote.describe(),
        // The query may say which file it is.
        None => url.to_owned(),
    };
    let found = remote.head(key)?;
    check_range(remote, key, &found.version)?;
    let name = key.rsplit('/').next().unwrap_or(key);
    let tag = found.version.etag.as_deref().unwrap_or_default();
    Ok(OpenedObject {
        identity: KeyHasher::new(&place)
            .of(&[key, "\n", tag].concat())
            .bytes(),
        name: super::name::of_segment(name).into_owned(),
        modified: found.version.last_modified,
        is_weak: found.version.is_weak(),
        device: ObjectDevice::new(remote.clone(), (&place, key), found.version, tier),
    })
}

/// Asks for one byte, where there are more: a server that sends the whole object for it is refused
/// before anything is served.
fn check_range(remote: &Arc<dyn Remote>, key: &str, version: &Version) -> Result<(), RemoteError> {
    struct OneByte(mpsc::Sender<Result<(), RemoteError>>);
    impl Sink for OneByte {
        fn put(&mut self, _bytes: &[u8]) {}
        fn end(self: Box<Self>, result: Result<(), RemoteError>) {
            let _ = self.0.send(result);
        }
    }
    if remote.as_writable().is_some() || version.length_bytes < 2 {
        return Ok(());
    }
    let (sender, receiver) = mpsc::channel();
    // Not the first byte: busybox sends all for `bytes=0-0`.
    remote.fetch(key, version, 1..2, Box::new(OneByte(sender)));
    let lost = || RemoteError::Protocol("the request was lost".to_owned());
    receiver.recv().unwrap_or_else(|_| Err(lost()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    const LENGTH: usize = 1000;

    /// Answers one request as a web server does that takes a last byte of 0 for none, or, with
    /// `ignores`, no ranges at all.
    fn answer(stream: &TcpStream, ignores: bool) -> Option<()> {
        let mut lines = BufReader::new(stream).lines();
        let method = lines.next()?.ok()?;
        let mut range = None;
        for line in lines
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
        {
            if let Some(asked) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (first, last) = asked.split_once('-')?;
                range = Some((first.parse().ok()?, last.parse::<usize>().ok()?));
            }
        }
        let (first, last) = range.filter(|_| !ignores).unwrap_or((0, LENGTH - 1));
        let last = if last == 0 { LENGTH - 1 } else { last };
        let mut head = format!(
            "Content-Length: {}\r\nConnection: close\r\n",
            last + 1 - first
        );
        head += "ETag: \"one\"\r\n";
        let status = match range.is_some() && !ignores {
            true => format!("206 Partial\r\nContent-Range: bytes {first}-{last}/{LENGTH}"),
            false => "200 OK".to_owned(),
        };
        let mut stream = stream;
        write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n").ok()?;
        if !method.starts_with("HEAD") {
            stream.write_all(&[7; LENGTH][first..=last]).ok()?;
        }
        Some(())
    }

    fn opened(ignores: bool) -> Result<OpenedObject, OpenError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // It ends with the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = answer(&stream.unwrap(), ignores);
            }
        });
        open_object(&format!("http://{address}/x.iso"), None)
    }

    #[test]
    fn a_server_without_ranges_is_refused_and_one_with_an_odd_first_byte_is_not() {
        assert_eq!(opened(false).unwrap().name, b"x.iso");
        let refused = opened(true).err().unwrap().to_string();
        assert!(refused.contains("ignores ranges"), "{refused}");
        assert_eq!(refused.matches("http://").count(), 1, "{refused}");
    }

    #[test]
    fn a_bucket_is_no_object() {
        for url in ["s3://bucket", "az://container?account=one", "gs://bucket/"] {
            let error = open_object(url, None).err().expect("no object");
            let text = error.to_string();
            assert!(text.ends_with("one object in it is wanted"), "{text}");
        }
    }
}
