//! Uploads in parts, each in a small file, so that what a killed process leaves can be aborted. Not
//! durable: after a power cut a store may keep a leftover.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Once;

use pagewell_base::files;
use pagewell_base::sync::Mutex;

use crate::folder::{Folder, Kind};
use crate::text::{Lines, escaped, sealed, unescaped_text, unsealed};

/// Noted at a time; more begin without a note.
pub const UPLOADS_MAX: usize = 1024;
const HEADER: &str = "pagewell upload 1";
/// A key of 1,024 bytes, each written as three, and any identifier seen so far.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// An upload begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NotedUpload {
    /// Of the object.
    pub key: String,
    /// As the store gave it.
    pub upload_id: String,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<HashMap<NotedUpload, u64>>);

impl Uploads {
    /// Reads files, and removes those that say nothing. The rest stay until forgotten.
    pub(crate) fn load(folder: &Folder, numbers: &[u64]) -> Self {
        let uploads = Self::default();
        for &number in numbers {
            match read(folder, number) {
                Some(upload) => drop(uploads.0.lock().insert(upload, number)),
                None => drop(folder.remove(number, Kind::Upload)),
            }
        }
        uploads
    }

    pub(crate) fn all(&self) -> Vec<NotedUpload> {
        self.0.lock().keys().cloned().collect()
    }

    /// Notes one, if possible.
    pub(crate) fn note(&self, folder: &Folder, upload: NotedUpload) {
        let number = folder.number();
        let mut uploads = self.0.lock();
        if uploads.len() >= UPLOADS_MAX || uploads.contains_key(&upload) {
            return;
        }
        let text = text(&upload);
        uploads.insert(upload, number);
        drop(uploads);
        let path = folder.file(number, Kind::Upload);
        if let Err(error) = write(&path, &text) {
            static ONCE: Once = Once::new();
            let path = path.display();
            ONCE.call_once(|| tracing::warn!("uploads are not noted: {path}: {error}"));
        }
    }

    /// An upload has ended.
    pub(crate) fn forget(&self, folder: &Folder, upload: &NotedUpload) {
        if let Some(number) = self.0.lock().remove(upload) {
            // What stays is aborted a second time.
            let _ = folder.remove(number, Kind::Upload);
        }
    }
}

fn text(upload: &NotedUpload) -> String {
    let (key, id) = (upload.key.as_bytes(), upload.upload_id.as_bytes());
    sealed(format!(
        "{HEADER}\nkey {}\nid {}\n",
        escaped(key),
        escaped(id)
    ))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())
}

fn read(folder: &Folder, number: u64) -> Option<NotedUpload> {
    let file = files::open(&folder.file(number, Kind::Upload)).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let mut lines = Lines::new(unsealed(&bytes)?);
    lines.take(HEADER)?;
    let key = unescaped_text(lines.take("key")?)?;
    let upload_id = unescaped_text(lines.take("id")?)?;
    Some(NotedUpload { key, upload_id })
}
