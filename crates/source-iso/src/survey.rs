//! What an image has, without opening it.

use pagewell_fs::source::OpenError;
use pagewell_fs::{Result, Timestamp};
use pagewell_source_bytes::Bytes;

use super::boot::{self, BootEntry};
use super::file_id::TreeKind;
use super::options::Session;
use super::{select, sessions};

/// The facts of an image. Texts are as recorded: a front escapes control characters.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Volume identifier (ECMA-119 clause 8.4.6).
    pub label: String,
    /// System identifier (8.4.5).
    pub system: String,
    /// Publisher (8.4.20); after `_`, the name of a file in the root directory.
    pub publisher: String,
    /// Data preparer (8.4.21), usually the program that wrote it.
    pub preparer: String,
    /// Application (8.4.22).
    pub application: String,
    /// Creation of the volume (8.4.26).
    pub created: Option<Timestamp>,
    /// The draft of 1986 instead of ISO 9660.
    pub is_high_sierra: bool,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Blocks of the volume, by its descriptor.
    pub volume_blocks: u32,
    /// Bytes of the volume that the image lacks, as after an interrupted download.
    pub missing_bytes: u64,
    /// The trees of the session, in the order of preference.
    pub trees: Vec<TreeKind>,
    /// First sectors, of 2048 bytes, of all sessions, oldest first.
    pub sessions: Vec<u64>,
    /// Images to boot from.
    pub boot: Vec<BootEntry>,
}

/// Looks at an image and at one of its sessions.
///
/// # Errors
/// No ISO 9660 image, no such session, or descriptors that cannot be read.
pub fn survey(bytes: &Bytes, session: Session) -> Result<Survey, OpenError> {
    let chosen = select::session(bytes, session)?;
    let set = &chosen.set;
    let failed = |error: pagewell_fs::Error| OpenError::new(bytes.name(), &error.to_string());
    let main = set
        .main()
        .ok_or_else(|| OpenError::new(bytes.name(), "not an ISO 9660 image"))?;
    let trees = select::announced_trees(bytes, set);
    let (sessions, boot) = select::with_image(bytes, |image| {
        let sessions = sessions::find(image)?;
        let boot = match set.boot_catalogue {
            Some(sector) => boot::entries(image, sector)?,
            None => Vec::new(),
        };
        Ok((sessions, boot))
    })
    .map_err(failed)?;
    Ok(Survey {
        label: main.label.clone(),
        system: main.system.clone(),
        publisher: main.publisher.clone(),
        preparer: main.preparer.clone(),
        application: main.application.clone(),
        created: main.created,
        is_high_sierra: main.is_high_sierra,
        block_bytes: main.block_bytes,
        volume_blocks: main.volume_blocks,
        missing_bytes: main.missing_bytes(chosen.start, bytes.length_bytes()),
        trees: trees.iter().map(|tree| tree.kind).collect(),
        sessions: sessions.iter().map(|session| session.start).collect(),
        boot,
    })
}
