//! What an image has, without opening any of it for use: for people, and for a choice between file
//! systems of one image.

use pagewell_fs::source::OpenError;
use pagewell_fs::{Result, Timestamp};
use pagewell_source_bytes::Bytes;

use super::boot::{self, BootEntry};
use super::file_id::TreeKind;
use super::options::IsoOptions;
use super::{select, sessions};

/// See the module's text. Texts are as recorded: a front escapes control characters.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Volume identifier (ECMA-119 clause 8.4.6).
    pub label: String,
    /// System identifier (8.4.5).
    pub system: String,
    /// Publisher (8.4.20); a name after `_` is that of a file in the root directory.
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
    /// The byte behind the volume, by its descriptor.
    pub end_of_volume: u64,
    /// Length of the image.
    pub length_bytes: u64,
    /// First sector of the session that the rest is about.
    pub session_sector: u64,
    /// All trees, in the order in which one is served by default.
    pub trees: Vec<TreeSurvey>,
    /// All sessions, oldest first.
    pub sessions: Vec<SessionSurvey>,
    /// Images to boot from.
    pub boot: Vec<BootEntry>,
}

/// A tree.
#[derive(Clone, Debug)]
pub struct TreeSurvey {
    /// Its kind.
    pub kind: TreeKind,
    /// Volume identifier of its descriptor, which may differ from others.
    pub label: String,
    /// First byte of its root directory. Trees with the same are two views of one.
    pub root_position: u64,
    /// Entries of the root directory, or why it is unreadable.
    pub root_entries: std::result::Result<usize, String>,
}

/// A session.
#[derive(Clone, Debug)]
pub struct SessionSurvey {
    /// First sector of 2048 bytes: what [`Session::Sector`](super::Session::Sector) takes.
    pub sector: u64,
    /// Blocks of it, by its descriptor.
    pub volume_blocks: u32,
    /// Volume identifier.
    pub label: String,
}

impl Survey {
    /// Bytes of the volume that the image lacks: it was cut off, by an interrupted download for
    /// example.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.end_of_volume.saturating_sub(self.length_bytes)
    }
}

/// Looks at an image and at the session that the options name.
///
/// # Errors
/// No ISO 9660 image, no such session, or descriptors that cannot be read.
pub fn survey(bytes: &Bytes, options: &IsoOptions) -> Result<Survey, OpenError> {
    let chosen = select::session(bytes, options.session)?;
    let set = &chosen.set;
    let failed = |error: pagewell_fs::Error| OpenError::new(bytes.name(), &error.to_string());
    let main = set
        .main()
        .ok_or_else(|| OpenError::new(bytes.name(), "not an ISO 9660 image"))?;
    let trees = select::announced_trees(bytes, set);
    let trees = trees.iter().map(|announced| {
        let tree = select::tree(bytes, set, announced, options);
        let directory = tree.directory(tree.root, true);
        TreeSurvey {
            kind: announced.kind,
            label: announced.descriptor.label.clone(),
            root_position: tree.root,
            root_entries: match directory {
                Ok(directory) => Ok(directory.items().len()),
                Err(error) => Err(error.to_string()),
            },
        }
    });
    let trees = trees.collect();
    let (sessions, boot) = select::with_image(bytes, |image| {
        let sessions = sessions::find(image)?;
        let sessions = sessions.iter().filter_map(|found| {
            let main = found.set.main()?;
            Some(SessionSurvey {
                sector: found.start,
                volume_blocks: main.volume_blocks,
                label: main.label.clone(),
            })
        });
        let boot = match set.boot_catalogue {
            Some(sector) => boot::entries(image, sector)?,
            None => Vec::new(),
        };
        Ok((sessions.collect(), boot))
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
        end_of_volume: main.end_of_volume(chosen.start),
        length_bytes: bytes.length_bytes(),
        session_sector: chosen.start,
        trees,
        sessions,
        boot,
    })
}
