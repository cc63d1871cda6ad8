//! Opens what a URL names: a bucket or folder as a tree, or one object.

use std::sync::{Arc, mpsc};
use std::time::SystemTime;

use pagewell_cache::Cache;
use pagewell_disk_tier::Tier;
use pagewell_fs::source::OpenError;
use pagewell_object_client::{
    Error as RemoteError, ListQuery, Location, Options, Remote, Sink, Version,
};

use super::device::ObjectDevice;
use super::filesystem::ObjectFileSystem;
use super::identifier::KeyHasher;

/// Options of the URL of a bucket: how they are written, and what they do.
pub const OPTIONS: [(&str, &str); 9] = [
    (
        "endpoint=URL, region=NAME, path-style=BOOLEAN",
        "The server, where it is not that of AWS; the region that requests are signed for; and \
         whether the bucket is in the path (default, except at AWS) or in the name of the host.",
    ),
    (
        "profile=NAME, anonymous=true",
        "The profile of the files of the AWS tools, or no signature at all.",
    ),
    (
        "age=TIME",
        "How long a listing, and what was seen of an object, is believed. Default: 10s.",
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
    /// Tells this version of it from all other objects.
    pub identity: [u8; 16],
    /// When it was changed, as its server says.
    pub modified: Option<SystemTime>,
    /// Whether two versions of it may look alike: its server gives it no strong tag.
    pub is_weak: bool,
}

/// Refuses a URL that can never be opened.
///
/// # Errors
/// With what is wrong.
pub fn check(url: &str) -> Result<(), OpenError> {
    parse(url).map(drop)
}

fn parse(url: &str) -> Result<(Location, Options), OpenError> {
    let mut options = Options::default();
    let location = Location::parse(url, &mut options);
    let location = location.map_err(|error| refused(url, &error))?;
    Ok((location, options))
}

/// Without a query, which may hold a signature or a password.
fn shown(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

/// An error that names the URL once.
fn refused(url: &str, error: &RemoteError) -> OpenError {
    let name = shown(url);
    OpenError::new(&name, &error.behind(&name))
}

/// Opens what the URL names.
///
/// # Errors
/// With the URL and the reason.
pub fn open(url: &str, cache: &Cache, tier: Option<Arc<Tier>>) -> Result<Opened, OpenError> {
    let (location, options) = parse(url)?;
    let refused = |error: RemoteError| refused(url, &error);
    let remote = pagewell_object_client::open(url, &Options::default()).map_err(refused)?;
    let prefix = location.prefix();
    let is_folder = prefix.is_empty() || prefix.ends_with('/');
    if !is_folder {
        match one_object(&remote, (url, &location), tier.clone()) {
            Ok(object) => return Ok(Opened::Object(object)),
            Err(RemoteError::NotFound) if matches!(location, Location::S3 { .. }) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    let slash = if is_folder { "" } else { "/" };
    let prefix = format!("{prefix}{slash}");
    let page = remote.list(&ListQuery {
        prefix: &prefix,
        delimiter: true,
        token: None,
        page_entries_max: 1,
    });
    let page = page.map_err(refused)?;
    if !is_folder && page.objects.is_empty() && page.prefixes.is_empty() {
        return Err(OpenError::new(
            &shown(url),
            "there is no such object or folder",
        ));
    }
    let bucket = match &location {
        Location::S3 { bucket, .. } => format!("s3://{bucket}"),
        Location::Web { .. } => remote.describe(),
    };
    let of = (&*bucket, &*prefix);
    let tree = ObjectFileSystem::new(remote, of, options.age, (cache, tier));
    Ok(Opened::Tree(tree))
}

/// Opens the one object that the URL names.
///
/// # Errors
/// With the URL and the reason.
pub fn open_object(url: &str, tier: Option<Arc<Tier>>) -> Result<OpenedObject, OpenError> {
    let (location, _) = parse(url)?;
    let refused = |error: RemoteError| refused(url, &error);
    let remote = pagewell_object_client::open(url, &Options::default()).map_err(refused)?;
    one_object(&remote, (url, &location), tier).map_err(refused)
}

fn one_object(
    remote: &Arc<dyn Remote>,
    (url, location): (&str, &Location),
    tier: Option<Arc<Tier>>,
) -> Result<OpenedObject, RemoteError> {
    let key = location.prefix();
    let place = match location {
        Location::S3 { .. } => remote.describe(),
        // What follows `?` may say which file it is.
        Location::Web { .. } => url.to_owned(),
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
    remote.fetch(key, version, 0..1, Box::new(OneByte(sender)));
    let lost = || RemoteError::Protocol("the request was lost".to_owned());
    receiver.recv().unwrap_or_else(|_| Err(lost()))
}
