//! What every remote does: objects as they are now, listings, and bytes of a version.

use std::ops::Range;

use bytes::Bytes;

use crate::activity::Activity;
use crate::error::Result;
use crate::version::Version;
use crate::whole;
use crate::writable::{Metadata, WritableRemote};

/// A bucket, or a web server's folder: one endpoint with its credentials, connections and patience.
///
/// Any thread may call it but those of the runtime. All methods but [`Remote::fetch`] wait until
/// the reply is there or the budget of retries is spent.
pub trait Remote: Send + Sync {
    /// For people, such as `s3://bucket/prefix at http://127.0.0.1:9000`; without secrets.
    fn describe(&self) -> String;

    /// An object as it is now.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) and what a request can meet.
    fn head(&self, key: &str) -> Result<ObjectInfo>;

    /// An object as it is now with its bytes, if it has at most `bytes_max`: a store gives both of
    /// a small one by one request.
    ///
    /// # Errors
    /// As [`Remote::head`]; [`Changed`](crate::Error::Changed) when it changed in between.
    fn get(&self, key: &str, bytes_max: u64) -> Result<(ObjectInfo, Option<Bytes>)> {
        whole::whole(self, key, bytes_max)
    }

    /// A page of a listing.
    ///
    /// A prefix comes once in a page; some servers repeat it on others. The order is the server's.
    ///
    /// # Errors
    /// What a request can meet; [`Unsupported`](crate::Error::Unsupported) of a web server whose
    /// listings are for people alone.
    fn list(&self, query: &ListQuery<'_>) -> Result<ListPage>;

    /// Begins to fetch the bytes `range` of `version`, and returns. They go to the sink in order,
    /// on a thread of the runtime, which calls the sink's `end` exactly once. An empty range ends
    /// at once; one past the end of the version is [`Invalid`](crate::Error::Invalid).
    ///
    /// A body that is cut goes on where it ended, on the same version only. When the object is
    /// another version now, the result is [`Changed`](crate::Error::Changed): bytes of two versions
    /// never come together. A server that ignores ranges is
    /// [`Unsupported`](crate::Error::Unsupported), unless all bytes are wanted.
    fn fetch(&self, key: &str, version: &Version, range: Range<u64>, sink: Box<dyn Sink>);

    /// How to change objects; `None` for web servers.
    fn as_writable(&self) -> Option<&dyn WritableRemote>;

    /// Counts of this endpoint.
    fn activity(&self) -> Activity;
}

/// Where the bytes of a fetch go. A sink must not wait: other fetches share its thread.
pub trait Sink: Send {
    /// The next bytes, in order.
    fn put(&mut self, bytes: &[u8]);
    /// The end: `Ok` when all bytes of the range have come.
    fn end(self: Box<Self>, result: Result<()>);
}

/// An object as a server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Which version it is now.
    pub version: Version,
    /// `x-amz-meta-*`, without that prefix.
    pub metadata: Metadata,
    /// The media type.
    pub content_type: Option<String>,
}

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery<'a> {
    /// What the keys begin with; with `delimiter`, a folder and its `/`, or nothing.
    pub prefix: &'a str,
    /// Whether keys that go on behind the next `/` are given once, as a prefix.
    pub delimiter: bool,
    /// The token of the page.
    pub token: Option<String>,
    /// Entries wanted; servers may give fewer, and some give more.
    pub page_entries_max: u32,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Objects, with their whole keys.
    pub objects: Vec<ListedObject>,
    /// Prefixes, whole, with the delimiter at the end.
    pub prefixes: Vec<String>,
    /// The token of the next page. One that was there before leads nowhere: names are missing.
    pub next: Option<String>,
}

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its whole key.
    pub key: String,
    /// Its version; some servers list no tags.
    pub version: Version,
}
