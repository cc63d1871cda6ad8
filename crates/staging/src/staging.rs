//! The staging of one bucket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pagewell_fs::source::OpenError;

pub use crate::folder::Count;

use crate::file::StagedFile;
use crate::folder::Folder;
use crate::lock::LOCK_TRIED_FOR;
use crate::open::{self, Opened};
use crate::uploads::{NotedUpload, Uploads};

/// See the crate.
pub struct Staging {
    folder: Arc<Folder>,
    uploads: Uploads,
}

impl Staging {
    /// Opens or makes the folder of the bucket `origin`, with room for `bytes_max`. Removes bytes
    /// without a record, never acknowledged; sets aside what is damaged, with a warning.
    ///
    /// # Errors
    /// It is of another bucket, has something else, another process has it
    /// ([`OpenError::is_in_use`]), or it cannot be written.
    pub fn open(path: &Path, origin: &str, bytes_max: u64) -> Result<Opened, OpenError> {
        open::open(path, origin, bytes_max, LOCK_TRIED_FOR)
    }

    /// The same without a wait, of a folder that another process may have.
    pub fn open_left(path: &Path, origin: &str, bytes_max: u64) -> Result<Opened, OpenError> {
        open::open(path, origin, bytes_max, Duration::ZERO)
    }

    pub(crate) fn new(folder: Arc<Folder>, uploads: Uploads) -> Arc<Self> {
        Arc::new(Self { folder, uploads })
    }

    /// A staged file for the object of this key, made on the disk when written.
    #[must_use]
    pub fn create(&self, key: &str) -> StagedFile {
        StagedFile::new(&self.folder, self.folder.number(), key)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Bytes stored, also those kept for people.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.folder.used_bytes()
    }

    /// Most bytes to store.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.folder.bytes_max()
    }

    /// Whether less than a quarter of the room is left, or something found none since
    /// [`Self::forget_refusal`].
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.folder.is_nearly_full()
    }

    /// Whether something found no room; that is forgotten, for room is made now.
    #[must_use]
    pub fn forget_refusal(&self) -> bool {
        self.folder.forget_refusal()
    }

    /// Files with a record, and the bytes promised.
    #[must_use]
    pub fn journaled(&self) -> Count {
        self.folder.journaled()
    }

    /// Files of conflicts, until people remove them.
    #[must_use]
    pub fn kept(&self) -> Count {
        self.folder.kept()
    }

    /// An upload in parts begins. [`Self::open`] returns it, unless [`Self::forget_upload`] comes
    /// first.
    pub fn note_upload(&self, key: &str, upload_id: &str) {
        self.uploads.note(&self.folder, upload(key, upload_id));
    }

    /// The upload was completed, or aborted.
    pub fn forget_upload(&self, key: &str, upload_id: &str) {
        self.uploads.forget(&self.folder, &upload(key, upload_id));
    }
}

fn upload(key: &str, upload_id: &str) -> NotedUpload {
    NotedUpload {
        key: key.to_owned(),
        upload_id: upload_id.to_owned(),
    }
}
