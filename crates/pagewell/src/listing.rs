//! One object as `ls` and `stat` describe it, as JSON and for people.

use std::borrow::Cow;

use pagewell_fs::{Attributes, FileType};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::escape;
use crate::time_text;

/// Bytes that are usually text, in JSON: `KEY` has them as text, with U+FFFD for what is not UTF-8;
/// then `KEY_hex` has all in hexadecimal.
#[derive(Clone, Debug)]
pub(crate) struct TextJson {
    key: &'static str,
    bytes: Vec<u8>,
}

impl TextJson {
    pub(crate) fn new(key: &'static str, bytes: &[u8]) -> Self {
        Self {
            key,
            bytes: bytes.to_vec(),
        }
    }

    pub(crate) fn shown(&self) -> String {
        escape::text(&self.bytes)
    }
}

impl Serialize for TextJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry(self.key, &text)?;
        if matches!(text, Cow::Owned(_)) {
            let hex = escape::hexadecimal(&self.bytes);
            members.serialize_entry(&format!("{}_hex", self.key), &hex)?;
        }
        members.end()
    }
}

/// Attributes for machines. Times are ISO 8601 in UTC, the mode is octal text.
#[derive(Debug, serde::Serialize)]
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
pub(crate) fn is_device(attributes: &Attributes) -> bool {
    matches!(
        attributes.file_type,
        FileType::BlockDevice | FileType::CharacterDevice
    )
}
