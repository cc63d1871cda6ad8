//! Pages of ListObjectsV2.
//!
//! A page is asked for with `encoding-type=url`. Its keys are decoded only if the reply says that
//! they are encoded and none of them holds what encoding replaces: one server says so and sends raw
//! keys. Where raw keys look encoded (`a%41`), `raw-listings=true` helps.

use std::collections::HashSet;

use crate::date;
use crate::percent;
use crate::remote::{ListPage, ListQuery, ListedObject};
use crate::version::{Version, quoted};
use crate::xml::{self, Element};

fn is_encoded(text: &str) -> bool {
    let is_kept = |byte: u8| byte.is_ascii_graphic() && !b"\"<>&#?".contains(&byte);
    text.bytes().all(is_kept) && percent::decode_text(text).is_some()
}

#[derive(Clone, Copy)]
pub(crate) struct Encoding(bool);

impl Encoding {
    /// That of a reply with these `keys`.
    pub(crate) fn of<'a>(
        answer: &Element,
        mut keys: impl Iterator<Item = &'a str>,
        is_raw: bool,
    ) -> Self {
        let is_said = answer.text_of("EncodingType").trim() == "url";
        Self(is_said && !is_raw && keys.all(is_encoded))
    }

    /// A key; `None` when it is no text.
    pub(crate) fn decode(self, text: &str) -> Option<String> {
        if self.0 {
            percent::decode_text(&text.replace('+', "%20"))
        } else {
            Some(text.to_owned())
        }
    }
}

/// The page that a reply holds.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn page(body: &[u8], query: &ListQuery<'_>, is_raw: bool) -> Result<ListPage, String> {
    let answer = xml::parse(body)?;
    if answer.name != "ListBucketResult" {
        return Err(format!("it is a {}", answer.name));
    }
    let prefixes = || {
        answer
            .all("CommonPrefixes")
            .map(|found| found.text_of("Prefix"))
    };
    let keys = answer.all("Contents").map(|found| found.text_of("Key"));
    let encoding = Encoding::of(&answer, keys.chain(prefixes()), is_raw);
    let decode = |text: &str| {
        let key = encoding.decode(text).ok_or("a key is not UTF-8")?;
        if key.starts_with(query.prefix) {
            Ok(key)
        } else {
            Err(format!("{key:?} does not begin with {:?}", query.prefix))
        }
    };
    let mut page = ListPage::default();
    for found in answer.all("Contents") {
        let key = decode(found.text_of("Key"))?;
        let size = found.text_of("Size").trim();
        let length_bytes = size.parse().map_err(|_| format!("{key:?} has no size"))?;
        let version = Version {
            etag: quoted(found.text_of("ETag")),
            last_modified: date::iso(found.text_of("LastModified").trim()),
            length_bytes,
        };
        page.objects.push(ListedObject { key, version });
    }
    let mut given = HashSet::new();
    for prefix in prefixes() {
        let prefix = decode(prefix)?;
        if given.insert(prefix.clone()) {
            page.prefixes.push(prefix);
        }
    }
    let next = answer.text_of("NextContinuationToken");
    let is_truncated = answer.text_of("IsTruncated").trim() == "true";
    if is_truncated && next.is_empty() {
        return Err("it goes on, and does not say where".to_owned());
    }
    if is_truncated {
        page.next = Some(next.to_owned());
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: ListQuery<'_> = ListQuery {
        prefix: "",
        delimiter: true,
        token: None,
        page_entries_max: 1000,
    };

    fn listed(inner: &str) -> Result<ListPage, String> {
        let body = format!(
            "<?xml version=\"1.0\"?>\
             <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}\
             </ListBucketResult>"
        );
        page(body.as_bytes(), &QUERY, false)
    }

    fn object(key: &str) -> String {
        format!("<Contents><Key>{key}</Key><Size>3</Size></Contents>")
    }

    fn keys(inner: &str) -> Vec<String> {
        let page = listed(inner).expect("a page");
        page.objects.into_iter().map(|object| object.key).collect()
    }

    #[test]
    fn a_page_has_versions_prefixes_and_a_token() {
        let page = listed(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t=</NextContinuationToken>\
             <Contents><Key>a</Key><LastModified>2026-11-28T03:21:43.500Z</LastModified>\
             <ETag>&quot;e-2&quot;</ETag><Size>5497558138880</Size></Contents>\
             <CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>\
             <CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>\
             <CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>",
        )
        .expect("a page");
        assert_eq!(page.next.as_deref(), Some("t="));
        assert_eq!(page.prefixes, ["b/", "c/"]);
        let version = &page.objects[0].version;
        assert_eq!(version.etag.as_deref(), Some("\"e-2\""));
        assert_eq!(version.length_bytes, 5 << 40);
        assert!(version.last_modified.is_some());
    }

    #[test]
    fn keys_are_decoded_only_when_they_are_encoded() {
        let encoded = "<EncodingType>url</EncodingType>";
        let given = object("a%2541b+c%2B%0A%C3%A9/d");
        assert_eq!(keys(&format!("{encoded}{given}")), ["a%41b c+\n\u{e9}/d"]);
        // No word of it, or an empty one.
        assert_eq!(keys(&given), ["a%2541b+c%2B%0A%C3%A9/d"]);
        let empty = format!("<EncodingType></EncodingType>{given}");
        assert_eq!(keys(&empty), ["a%2541b+c%2B%0A%C3%A9/d"]);
        // It says so, and does not do it.
        for raw in ["x y", "\u{e9}", "50%", "a%zz"] {
            let all = format!("{encoded}{}{}", object("a%41"), object(raw));
            assert_eq!(keys(&all), ["a%41", raw]);
        }
        let body = format!(
            "<ListBucketResult>{encoded}{}</ListBucketResult>",
            object("a%41")
        );
        let page = page(body.as_bytes(), &QUERY, true).expect("a page");
        assert_eq!(page.objects[0].key, "a%41");
    }

    #[test]
    fn a_page_that_leads_nowhere_ends_or_is_wrong() {
        let again = ListQuery {
            token: Some("t".to_owned()),
            prefix: "p/",
            ..QUERY
        };
        let list = |inner: &str| {
            let body = format!("<ListBucketResult>{inner}</ListBucketResult>");
            page(body.as_bytes(), &again, false)
        };
        let more = "<IsTruncated>true</IsTruncated>";
        let token =
            |name: &str| format!("{more}<NextContinuationToken>{name}</NextContinuationToken>");
        let next = |name: &str| list(&token(name)).expect("a page").next;
        assert_eq!(next("u").as_deref(), Some("u"));
        assert_eq!(next("t").as_deref(), Some("t"));
        assert!(list(more).is_err());
        assert!(list(&object("q/a")).is_err());
        assert!(list(&object("p/a")).is_ok());
        assert!(list("<Contents><Key>p/a</Key></Contents>").is_err());
        assert!(page(b"<html></html>", &QUERY, false).is_err());
        assert!(page(b"<ListBucketResult>", &QUERY, false).is_err());
    }

    #[test]
    fn any_keys_are_read_or_refused() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = xml::escaped(&String::from_utf8_lossy(bytes));
            for encoding in ["", "<EncodingType>url</EncodingType>"] {
                if let Ok(page) = listed(&format!("{encoding}{}", object(&text))) {
                    assert_eq!(page.objects.len(), 1);
                }
            }
            let _ = page(bytes, &QUERY, false);
        });
    }
}
