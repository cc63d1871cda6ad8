//! One object as `ls` and `stat` describe it: for machines (JSON) and for people.

use pagewell_fs::{Attributes, FileType};
use serde::Serialize;

use crate::escape;
use crate::time_text;

/// Bytes that are usually text: as text where they are UTF-8, else nearly, with all of them in
/// hexadecimal beside it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TextOrHex {
    /// The text; what is not UTF-8 is replaced with U+FFFD.
    pub(crate) text: String,
    /// All bytes, when the text lost some.
    pub(crate) hex: Option<String>,
}

impl TextOrHex {
    /// Of these bytes.
    #[must_use]
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let is_text = std::str::from_utf8(bytes).is_ok();
        Self {
            text: String::from_utf8_lossy(bytes).into_owned(),
            hex: (!is_text).then(|| escape::hexadecimal(bytes)),
        }
    }
}

/// Attributes for machines. Times are ISO 8601 in UTC, the mode is octal text.
#[derive(Debug, Serialize)]
pub(crate) struct AttributesJson {
    #[serde(rename = "type")]
    file_type: &'static str,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    size: u64,
    used: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
    filesystem_id: u64,
    file_id: u64,
    accessed: String,
    modified: String,
    changed: String,
}

impl From<&Attributes> for AttributesJson {
    fn from(attributes: &Attributes) -> Self {
        Self {
            file_type: pagewell_tree::type_text(attributes.file_type),
            mode: format!("{:04o}", attributes.mode),
            links: attributes.link_count,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size,
            used: attributes.used,
            device: is_device(attributes).then_some(attributes.device),
            filesystem_id: attributes.filesystem_id,
            file_id: attributes.file_id,
            accessed: time_text::nanoseconds(attributes.accessed),
            modified: time_text::nanoseconds(attributes.modified),
            changed: time_text::nanoseconds(attributes.changed),
        }
    }
}

/// Whether the device numbers mean something.
#[must_use]
pub(crate) fn is_device(attributes: &Attributes) -> bool {
    matches!(
        attributes.file_type,
        FileType::BlockDevice | FileType::CharacterDevice
    )
}
