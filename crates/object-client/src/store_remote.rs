//! The remote over each kind of store, for threads that wait.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::activity::Activity;
use crate::error::{Error, Result};
use crate::fetch::{End, fetch};
use crate::provoke;
use crate::remote::{ListPage, ListQuery, ObjectInfo, Remote, Sink};
use crate::runtime;
use crate::store::{Uploads, Whole, WholeObjects};
use crate::version::Version;
use crate::whole;
use crate::writable::{Condition, Copies, ListedUpload, Metadata, Part, Upload, WritableRemote};

/// A store as a remote, for threads that wait.
pub(crate) struct StoreRemote<S> {
    store: Arc<S>,
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
                // Without threads the dropped future calls the end.
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

    fn replaces_parts(&self) -> bool {
        S::REPLACES_PARTS
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

    fn compares_signed_hashes(&self, upload: &Upload) -> Result<bool> {
        let store = self.store.as_ref();
        for call in store.signed_calls(upload)? {
            if !runtime::wait(provoke::compares_signed_hash(store, call))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn signs_bodies(&self) -> bool {
        self.store.signs_bodies()
    }

    fn trust_signed_hashes(&self, compares: bool) {
        self.store.trust_signed_hashes(compares);
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
