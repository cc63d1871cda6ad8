//! What each kind of store does with its objects, in traits of one file of it each; and one remote
//! over them, for threads that wait.
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

use crate::activity::Activity;
use crate::error::{Error, Result};
use crate::fetch::{End, fetch};
use crate::provoke;
use crate::remote::{ListPage, ListQuery, ObjectInfo, Remote, Sink};
use crate::runtime;
use crate::service::Service;
use crate::transport::Call;
use crate::version::Version;
use crate::whole;
use crate::writable::{Condition, Copies, ListedUpload, Metadata, Part, Upload, WritableRemote};

/// An object, and its bytes where they are few enough.
pub(crate) type Whole = (ObjectInfo, Option<Bytes>);

/// A service whose objects can be looked at by their keys.
pub(crate) trait Store: Service {
    /// See [`Remote::describe`]; of what is below `prefix`.
    fn describe(&self, prefix: &str) -> String;

    /// See [`Remote::head`].
    fn head(&self, key: &str) -> impl Future<Output = Result<ObjectInfo>> + Send;

    /// See [`Remote::get`]; nothing where no request gives both.
    fn at_once(
        &self,
        _key: &str,
        _bytes_max: u64,
    ) -> impl Future<Output = Result<Option<Whole>>> + Send {
        std::future::ready(Ok(None))
    }

    /// See [`Remote::list`].
    fn list(&self, query: &ListQuery<'_>) -> impl Future<Output = Result<ListPage>> + Send;

    /// The call for the bytes of an object.
    fn get(&self, key: &str) -> Result<Call>;
}

/// See the methods of these names of [`WritableRemote`].
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

    /// A call that makes an object of another body than its hash says.
    fn damaged_put(&self, key: &str) -> Result<Call>;
}

/// The same.
pub(crate) trait Uploads: Store {
    const COPIES: Copies = Copies::Ranges;

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

/// A store for threads that wait.
pub(crate) struct StoreRemote<S> {
    store: Arc<S>,
    /// Of the URL.
    prefix: String,
}

impl<S> StoreRemote<S> {
    pub(crate) fn new(store: S, prefix: String) -> Self {
        Self {
            store: Arc::new(store),
            prefix,
        }
    }
}

impl<S: WholeObjects + Uploads> Remote for StoreRemote<S> {
    fn describe(&self) -> String {
        self.store.describe(&self.prefix)
    }

    fn head(&self, key: &str) -> Result<ObjectInfo> {
        runtime::wait(self.store.head(key))
    }

    fn get(&self, key: &str, bytes_max: u64) -> Result<Whole> {
        match runtime::wait(self.store.at_once(key, bytes_max))? {
            Some(whole) => Ok(whole),
            None => whole::whole(self, key, bytes_max),
        }
    }

    fn list(&self, query: &ListQuery<'_>) -> Result<ListPage> {
        runtime::wait(self.store.list(query))
    }

    fn fetch(&self, key: &str, version: &Version, range: Range<u64>, sink: Box<dyn Sink>) {
        let end = End::new(sink);
        match self.store.get(key) {
            Ok(call) => {
                let (store, version) = (Arc::clone(&self.store), version.clone());
                // Without threads the future is dropped, and with it the end is called.
                let _ = runtime::begin(fetch(store, call, version, range, end));
            }
            Err(error) => end.end(Err(error)),
        }
    }

    fn as_writable(&self) -> Option<&dyn WritableRemote> {
        Some(self)
    }

    fn activity(&self) -> Activity {
        self.store.transport().activity()
    }
}

impl<S: WholeObjects + Uploads> WritableRemote for StoreRemote<S> {
    fn takes(&self, key: &str) -> bool {
        self.store.takes(key)
    }

    fn put(
        &self,
        key: &str,
        body: Bytes,
        condition: &Condition,
        metadata: &Metadata,
    ) -> Result<Version> {
        runtime::wait(self.store.put(key, body, condition, metadata))
    }

    fn create_upload(&self, key: &str, metadata: &Metadata) -> Result<Upload> {
        runtime::wait(self.store.create_upload(key, metadata))
    }

    fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part> {
        runtime::wait(self.store.upload_part(upload, number, body))
    }

    fn copies(&self) -> Copies {
        S::COPIES
    }

    fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Part> {
        let copied = self.store.copy_part(upload, number, source, version, range);
        runtime::wait(copied)
    }

    fn complete(&self, upload: &Upload, parts: &[Part], condition: &Condition) -> Result<Version> {
        runtime::wait(self.store.complete(upload, parts, condition))
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        runtime::wait(self.store.abort(upload))
    }

    fn uploads(&self, prefix: &str) -> Result<Vec<ListedUpload>> {
        runtime::wait(self.store.uploads(prefix))
    }

    fn delete(&self, key: &str, condition: &Condition) -> Result<()> {
        if *condition == Condition::Absent {
            let text = "what is absent cannot be deleted";
            return Err(Error::Invalid(text.to_owned()));
        }
        runtime::wait(self.store.delete(key, condition))
    }

    fn delete_many(&self, keys: &[String]) -> Result<Vec<(String, String)>> {
        runtime::wait(self.store.delete_many(keys))
    }

    fn compares_hashes(&self, key: &str) -> Result<bool> {
        let put = self.store.damaged_put(key)?;
        runtime::wait(provoke::compares_hashes(self.store.as_ref(), put))
    }

    fn honours_if_match(&self, key: &str) -> Result<bool> {
        let get = self.store.get(key)?;
        runtime::wait(provoke::honours_if_match(self.store.as_ref(), get))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::tests::{bucket_of, options};
    use crate::testing::Script;

    #[test]
    fn what_is_absent_is_not_deleted() {
        let script = Script::new([]);
        let remote = StoreRemote {
            store: bucket_of(&script, &options()),
            prefix: "p".to_owned(),
        };
        assert!(remote.describe().starts_with("s3://bucket/p at "));
        let refused = remote.delete("k", &Condition::Absent);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        assert!(script.seen().is_empty());
    }
}
