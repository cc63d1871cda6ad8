//! Objects as the JSON API describes them, and what names their versions.
//!
//! A version is a *generation*: a number that is new with each change of an object's bytes, also
//! when the same bytes come back. Google's ETag changes with metadata, too, and is the MD5 at other
//! servers of this kind; so the tag of a [`Version`] is made of the generation:
//!
//! ```text
//!   "1796007968583094"        an object as any other
//!   "1796007968583094-gzip"   stored with Content-Encoding: gzip, which Google unpacks unless
//!                             the request takes gzip
//! ```

use serde_json::Value;

use crate::date;
use crate::error::{Error, Result};
use crate::json::{number_of, text_of};
use crate::remote::ObjectInfo;
use crate::version::Version;
use crate::writable::Metadata;

pub(crate) const FIELDS: &str = "name,size,generation,updated,contentType,contentEncoding,\
                                 md5Hash,metadata";
const GZIP: &str = "-gzip";

pub(crate) fn tag(generation: u64, is_compressed: bool) -> String {
    let end = if is_compressed { GZIP } else { "" };
    format!("\"{generation}{end}\"")
}

/// Whether Google unpacks the bytes of a version on the way.
pub(crate) fn is_compressed(version: &Version) -> bool {
    let etag = version.strong_etag().unwrap_or_default();
    etag.trim_matches('"').ends_with(GZIP)
}

///
/// # Errors
/// [`Error::Changed`] when it is none; 0 would stand for no object.
pub(crate) fn generation(version: &Version) -> Result<u64> {
    let etag = version.strong_etag().ok_or_else(|| {
        let text = "a condition needs a version with a generation";
        Error::Unsupported(text.to_owned())
    })?;
    let digits = etag.trim_matches('"');
    let digits = digits.strip_suffix(GZIP).unwrap_or(digits);
    let number = digits.parse().ok().filter(|number| *number > 0);
    number.ok_or(Error::Changed)
}

/// The version of a description; `None` without its length.
pub(crate) fn version(object: &Value) -> Option<Version> {
    let is_compressed = text_of(object, "contentEncoding").eq_ignore_ascii_case("gzip");
    let generation = number_of(object, "generation").filter(|number| *number > 0);
    Some(Version {
        etag: generation.map(|generation| tag(generation, is_compressed)),
        last_modified: date::iso(text_of(object, "updated")),
        length_bytes: number_of(object, "size")?,
    })
}

pub(crate) fn info(object: &Value) -> Option<ObjectInfo> {
    let media_type = text_of(object, "contentType");
    Some(ObjectInfo {
        version: version(object)?,
        metadata: metadata(object),
        content_type: (!media_type.is_empty()).then(|| media_type.to_owned()),
    })
}

pub(crate) fn metadata(object: &Value) -> Metadata {
    let pairs = object.get("metadata").and_then(Value::as_object);
    let pairs = pairs.into_iter().flatten().filter_map(|(name, value)| {
        let value = value.as_str()?.as_bytes().to_vec();
        Some((name.clone(), value))
    });
    pairs.collect()
}

/// Metadata in the form of a description.
///
/// # Errors
/// [`Error::Invalid`] for a value that is no text.
pub(crate) fn described(metadata: &Metadata) -> Result<Value> {
    let pairs = metadata.iter().map(|(name, value)| {
        let text = std::str::from_utf8(value)
            .map_err(|_| Error::Invalid(format!("metadata {name:?}: the value is no text")))?;
        Ok((name.clone(), Value::from(text)))
    });
    let pairs: Result<serde_json::Map<String, Value>> = pairs.collect();
    Ok(Value::Object(pairs?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_has_a_generation_and_metadata() {
        let object = json!({"name": "k", "size": "5497558138880", "generation": "7",
            "updated": "2026-11-28T03:21:43.5Z", "contentType": "text/plain",
            "metadata": {"Mode": "33188", "name": "\u{e9}", "odd": 7}});
        let info = info(&object).expect("an object");
        assert_eq!(info.version.etag.as_deref(), Some("\"7\""));
        assert_eq!(info.version.length_bytes, 5 << 40);
        assert!(info.version.last_modified.is_some() && !info.version.is_weak());
        assert_eq!(info.content_type.as_deref(), Some("text/plain"));
        let expected = [("Mode", "33188"), ("name", "\u{e9}")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        assert_eq!(info.metadata, expected);
        assert_eq!(described(&info.metadata).expect("text")["Mode"], "33188");
        assert!(described(&vec![("x".to_owned(), vec![0xff])]).is_err());
        assert_eq!(version(&json!({"generation": "7"})), None);
    }

    #[test]
    fn tags_are_generations() {
        let of = |object: &Value| version(object).expect("a version");
        let plain = of(&json!({"size": 1, "generation": 7}));
        assert!(!is_compressed(&plain));
        let packed = of(&json!({"size": 1, "generation": 7, "contentEncoding": "gzip"}));
        assert!(is_compressed(&packed) && !plain.is_same(&packed));
        assert_eq!(generation(&plain), Ok(7));
        assert_eq!(generation(&packed), Ok(7));
        for etag in [
            "\"0\"",
            "\"00000000000000000000000000000000\"",
            "\"x\"",
            "\"-7\"",
        ] {
            let other = Version {
                etag: Some(etag.to_owned()),
                ..plain.clone()
            };
            assert_eq!(generation(&other), Err(Error::Changed), "{etag}");
        }
        let none = of(&json!({"size": 1}));
        assert!(none.is_weak() && matches!(generation(&none), Err(Error::Unsupported(_))));
    }
}
