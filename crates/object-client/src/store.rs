//! What each kind of store does with its objects, in traits for one file of it each.
//!
//! ```text
//!   StoreRemote ──waits──> Store          looked at, listed, read      (s3, azure, google)/mod.rs
//!                          WholeObjects   made of one body, deleted    write.rs
//!                          Uploads        made of parts                upload.rs
//! ```

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::remote::{ListPage, ListQuery, ObjectInfo};
use crate::service::Service;
use crate::transport::Call;
use crate::version::Version;
use crate::writable::{Condition, Copies, ListedUpload, Metadata, Part, Upload};

pub(crate) type Whole = (ObjectInfo, Option<Bytes>);

pub(crate) trait Store: Service {
    /// See [`Remote::describe`](crate::Remote::describe); of what is below `prefix`.
    fn describe(&self, prefix: &str) -> String;

    /// See [`Remote::head`](crate::Remote::head).
    fn head(&self, key: &str) -> impl Future<Output = Result<ObjectInfo>> + Send;

    /// See [`Remote::get`](crate::Remote::get); `None` where no request gives both.
    fn at_once(
        &self,
        _key: &str,
        _bytes_max: u64,
    ) -> impl Future<Output = Result<Option<Whole>>> + Send {
        std::future::ready(Ok(None))
    }

    /// See [`Remote::list`](crate::Remote::list).
    fn list(&self, query: &ListQuery<'_>) -> impl Future<Output = Result<ListPage>> + Send;

    fn get(&self, key: &str) -> Result<Call>;
}

/// See the methods of these names of [`WritableRemote`](crate::WritableRemote).
pub(crate) trait WholeObjects: Store {
    fn takes(&self, _key: &str) -> bool {
        true
    }

    fn put(
        &self,
        key: &str,
        body: Bytes,
        condition: &Condition,
        metadata: &Metadata,
    ) -> impl Future<Output = Result<Version>> + Send;

    fn delete(&self, key: &str, condition: &Condition) -> impl Future<Output = Result<()>> + Send;

    fn delete_many(
        self: &Arc<Self>,
        keys: &[String],
    ) -> impl Future<Output = Result<Vec<(String, String)>>> + Send;

    /// A call that makes an object with a wrong hash.
    fn damaged_put(&self, key: &str) -> Result<Call>;

    /// Calls that make an object of this key, and a part of the upload, with a signed hash alone.
    fn signed_calls(&self, _upload: &Upload) -> Result<[Call; 2]> {
        let text = "signatures here hold no hash of a body";
        Err(Error::Unsupported(text.to_owned()))
    }

    fn signs_bodies(&self) -> bool {
        false
    }

    fn trust_signed_hashes(&self, _compares: bool) {}
}

/// See [`WritableRemote`](crate::WritableRemote), too.
pub(crate) trait Uploads: Store {
    const COPIES: Copies = Copies::Ranges;

    const REPLACES_PARTS: bool = true;

    fn create_upload(
        &self,
        key: &str,
        metadata: &Metadata,
    ) -> impl Future<Output = Result<Upload>> + Send;

    fn upload_part(
        &self,
        upload: &Upload,
        number: u32,
        body: Bytes,
    ) -> impl Future<Output = Result<Part>> + Send;

    fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &str,
        version: &Version,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Part>> + Send;

    fn complete(
        self: &Arc<Self>,
        upload: &Upload,
        parts: &[Part],
        condition: &Condition,
    ) -> impl Future<Output = Result<Version>> + Send;

    fn abort(self: &Arc<Self>, upload: &Upload) -> impl Future<Output = Result<()>> + Send;

    fn uploads(&self, prefix: &str) -> impl Future<Output = Result<Vec<ListedUpload>>> + Send;
}
