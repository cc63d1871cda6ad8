//! Options of an open image.

use std::sync::Arc;

use pagewell_source_bytes::Violations;

use super::charset::Charset;
use super::file_id::TreeKind;

/// Which part of an image to serve, and how.
#[derive(Clone, Debug, Default)]
pub struct IsoOptions {
    /// The letters of plain names.
    pub case: Case,
    /// The character set of plain and Rock Ridge names, and of targets of links, that are not
    /// UTF-8; `None`: shown byte by byte.
    pub charset: Option<Charset>,
    /// Older versions of files are shown, too, as `NAME;VERSION`.
    pub all_versions: bool,
    /// The tree; by default the first that can be read of Rock Ridge, ISO 9660:1999, Joliet, plain.
    pub tree: Option<TreeKind>,
    /// The session.
    pub session: Session,
    /// Files that zisofs compressed are shown as recorded.
    pub keeps_compressed: bool,
    /// Where departures from the format are noted, as they are found; costs time.
    pub violations: Option<Arc<Violations>>,
}

/// The letters of plain names (ECMA-119 clause 7.5: capitals only). Names of Rock Ridge and Joliet
/// are never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Case {
    /// Small, unless the writer recorded small letters: then capitals have a meaning.
    #[default]
    Automatic,
    /// Small.
    Lower,
    /// Capitals.
    Upper,
    /// As recorded.
    Keep,
}

/// A session of a disc that was written in several, each of which repeats all of ECMA-119.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// The descriptors at sector 16: the newest session of a grown image, the first of joined ones.
    #[default]
    Default,
    /// The newest.
    Last,
    /// By number; 1 is the oldest.
    Number(u32),
}
