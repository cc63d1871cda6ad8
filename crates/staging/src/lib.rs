//! Bytes of changed objects that their store lacks, in files of a local folder, and the journal by
//! which they survive the process.
//!
//! ```text
//!   DIR/bucket        what this folder is, and of which bucket
//!   DIR/N.data        bytes of staged file N, at their places in the object: sparse
//!   DIR/N.other       the same, of places whose bytes in N.data are promised by the record
//!   DIR/N.record      what is to be uploaded after a kill: text, with checksums
//!   DIR/N.kept        bytes of a conflict, for people; N.kept.txt says which, and why
//!   DIR/N.upload      an upload in parts that was begun, and not ended
//!   DIR/N.*.damaged   a record that is not as it was written, and its bytes
//! ```
//!
//! **A record is a snapshot.** [`StagedFile::journal`] makes the bytes durable, then the record
//! that names them and their checksums. Later writes must not change them, or a replay could not
//! tell these from damage. So each byte has two homes, `N.data` and `N.other`: a write goes to the
//! one where the record does not have it. The next record names new homes, and frees the old ones.
//! After a kill or a power cut the file is as at the last `journal` that returned, or one under
//! way.
//!
//! **Removal.** The record goes first, durably, then its bytes: a replay never meets newer work of
//! the same gateway. It is conditional; its `token`, in the object's metadata, shows that its own
//! upload had succeeded.
//!
//! **Order.** The requests of one file run one after the other, on [`THREADS_MAX`] threads for all.
//! `FileDevice` does not fit: its length is fixed, and each has threads of its own. Beyond
//! [`DESCRIPTORS_MAX`] the least recently used descriptor is closed, as tens of thousands of files
//! may exist.
//!
//! **Bounds.** Stored bytes have the caller's limit, those kept for people included. A file
//! journaled and then overwritten takes up to twice as much of the disk. A record has at most
//! [`RECORD_BYTES_MAX`].
//!
//! **Weaknesses.** [`Staging::open`] reads and compares all bytes that records promise. A `journal`
//! reads back each MiB written since the last one, holds up the requests of its file, and writes
//! the whole record, long with many changed places. One process has the folder, and users with
//! write permission are trusted.

mod descriptors;
mod error;
mod file;
mod folder;
mod kept;
mod lock;
mod open;
mod places;
mod pool;
mod record;
mod staging;
mod stored;
mod sums;
mod text;
mod uploads;

pub use descriptors::DESCRIPTORS_MAX;
pub use error::Error;
pub use file::StagedFile;
pub use open::{Journaled, Opened};
pub use pool::THREADS_MAX;
pub use record::{Base, Record};
pub use staging::{Count, Staging};
pub use stored::RECORD_BYTES_MAX;
pub use uploads::{NotedUpload, UPLOADS_MAX};
