//! Character sets of names that are not UTF-8.
//!
//! An image does not name the character set of its plain and Rock Ridge names; most are ASCII or
//! UTF-8, and others are shown byte by byte unless an option names the set.
//!
//! **Rule.** A name stays as it is if it is UTF-8, or if the set lacks a character of it: an image
//! may have both, except rare names that are text in both sets.
//!
//! Weakness: no sets outside the Encoding Standard, such as DOS code pages 437 and 850.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// A character set that contains ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

impl Charset {
    /// By a label of the [Encoding Standard](https://encoding.spec.whatwg.org/#names-and-labels) in
    /// any case, as `latin1`, `windows-1251`, `koi8-r`, `cp866`, `shift_jis`, `gbk`.
    #[must_use]
    pub fn named(label: &str) -> Option<Self> {
        let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
        encoding.is_ascii_compatible().then_some(Self(encoding))
    }

    /// Its name in the Encoding Standard.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

pub(super) fn decoded(bytes: &[u8], charset: Option<Charset>) -> Cow<'_, [u8]> {
    let text = charset
        .filter(|_| std::str::from_utf8(bytes).is_err())
        .and_then(|Charset(encoding)| {
            encoding.decode_without_bom_handling_and_without_replacement(bytes)
        });
    match text {
        Some(text) => Cow::Owned(text.into_owned().into_bytes()),
        None => Cow::Borrowed(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_known_by_their_labels() {
        for (label, name) in [
            ("latin1", "windows-1252"),
            ("CP866", "IBM866"),
            ("Shift_JIS", "Shift_JIS"),
            ("utf-8", "UTF-8"),
        ] {
            assert_eq!(Charset::named(label).unwrap().name(), name);
        }
        for unknown in ["", "cp437", "utf-16", "iso-2022-jp", "replacement"] {
            assert_eq!(Charset::named(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_what_is_no_text_is_changed() {
        let decode = |bytes: &[u8], label| {
            let text = decoded(bytes, Charset::named(label)).into_owned();
            String::from_utf8_lossy(&text).into_owned()
        };
        assert_eq!(decode(b"gr\xfc\xdfe", "latin1"), "grüße");
        assert_eq!(decode("grüße".as_bytes(), "latin1"), "grüße");
        assert_eq!(decode(b"\x83A\x83B", "shift_jis"), "アィ");
        assert_eq!(decode(b"\x8f\xe0\xa8\xa2\xa5\xe2", "cp866"), "Привет");
        assert_eq!(decoded(b"\x83", Charset::named("shift_jis")), &b"\x83"[..]);
        assert_eq!(decoded(b"\xfc", None), &b"\xfc"[..]);
    }
}
