//! Pages of List Blobs.
//!
//! A name that XML cannot hold is encoded, and marked so. Directories of accounts with a
//! hierarchical namespace come as prefixes and also as blobs: the latter are left out.

use std::collections::HashSet;

use crate::date;
use crate::percent;
use crate::remote::{ListPage, ListQuery, ListedObject};
use crate::version::{Version, quoted};
use crate::xml::{self, Element};

fn name_of(found: &Element, query: &ListQuery<'_>) -> Result<String, String> {
    let name = found.first("Name").ok_or("an entry has no name")?;
    let name = match name.is_encoded {
        true => percent::decode_text(&name.text).ok_or("a name is not UTF-8")?,
        false => name.text.clone(),
    };
    if name.starts_with(query.prefix) {
        return Ok(name);
    }
    Err(format!("{name:?} does not begin with {:?}", query.prefix))
}

/// The page that a reply holds.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn page(body: &[u8], query: &ListQuery<'_>) -> Result<ListPage, String> {
    let answer = xml::parse(body)?;
    if answer.name != "EnumerationResults" {
        return Err(format!("it is a {}", answer.name));
    }
    let none = Element::default();
    let found = answer.first("Blobs").unwrap_or(&none);
    let mut page = ListPage::default();
    for blob in found.all("Blob") {
        let properties = blob.first("Properties").unwrap_or(&none);
        if properties.text_of("ResourceType") == "directory" {
            continue;
        }
        let key = name_of(blob, query)?;
        let size = properties.text_of("Content-Length").trim();
        let length_bytes = size.parse().map_err(|_| format!("{key:?} has no size"))?;
        let version = Version {
            etag: quoted(properties.text_of("Etag")),
            last_modified: date::http(properties.text_of("Last-Modified").trim()),
            length_bytes,
        };
        page.objects.push(ListedObject { key, version });
    }
    let mut given = HashSet::new();
    for prefix in found.all("BlobPrefix") {
        let prefix = name_of(prefix, query)?;
        if given.insert(prefix.clone()) {
            page.prefixes.push(prefix);
        }
    }
    let next = answer.text_of("NextMarker");
    // A repeated token would lead to the same page for ever.
    if !next.is_empty() && query.token.as_deref() != Some(next) {
        page.next = Some(next.to_owned());
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(inner: &str, token: Option<&str>) -> Result<ListPage, String> {
        let body = format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults \
             ServiceEndpoint=\"https://a.blob.core.windows.net/\" ContainerName=\"c\">{inner}\
             </EnumerationResults>"
        );
        let query = ListQuery {
            prefix: "p/",
            delimiter: true,
            token: token.map(str::to_owned),
            page_entries_max: 1000,
        };
        page(body.as_bytes(), &query)
    }

    fn blob(name: &str, more: &str) -> String {
        format!(
            "<Blob><Name>{name}</Name><Properties><Last-Modified>Sat, 28 Nov 2026 03:21:43 GMT\
             </Last-Modified><Etag>0x8DE2</Etag><Content-Length>3</Content-Length>{more}\
             </Properties></Blob>"
        )
    }

    #[test]
    fn a_page_has_versions_prefixes_and_a_token() {
        let directory = "<ResourceType>directory</ResourceType>";
        let encoded = blob("", "").replace("<Name>", "<Name Encoded=\"true\">p%2F%EF%BF%BE%25");
        let prefix = "<BlobPrefix><Name>p/d/</Name></BlobPrefix>";
        let inner = format!(
            "<Prefix>p/</Prefix><Blobs>{}{}{encoded}{prefix}{prefix}</Blobs>\
             <NextMarker>2!8!cA--</NextMarker>",
            blob("p/a%41 &amp;", ""),
            blob("p/d", directory)
        );
        let page = listed(&inner, None).expect("a page");
        let keys: Vec<_> = page
            .objects
            .iter()
            .map(|object| object.key.as_str())
            .collect();
        assert_eq!(keys, ["p/a%41 &", "p/\u{fffe}%"]);
        let version = &page.objects[0].version;
        assert_eq!(version.etag.as_deref(), Some("\"0x8DE2\""));
        assert_eq!(version.length_bytes, 3);
        assert!(version.last_modified.is_some());
        assert_eq!(page.prefixes, ["p/d/"]);
        assert_eq!(page.next.as_deref(), Some("2!8!cA--"));
        assert_eq!(listed(&inner, Some("2!8!cA--")).expect("a page").next, None);
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let empty = listed("<Blobs /><NextMarker />", None).expect("a page");
        assert_eq!(empty, ListPage::default());
        let sizeless = blob("p/a", "").replace("<Content-Length>3", "<Content-Length>");
        for wrong in [blob("q", ""), "<Blob></Blob>".to_owned(), sizeless] {
            assert!(
                listed(&format!("<Blobs>{wrong}</Blobs>"), None).is_err(),
                "{wrong}"
            );
        }
        let query = ListQuery {
            prefix: "",
            delimiter: false,
            token: None,
            page_entries_max: 1,
        };
        assert!(page(b"<html></html>", &query).is_err());
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = page(bytes, &query);
            let text = xml::escaped(&String::from_utf8_lossy(bytes));
            let _ = listed(&format!("<Blobs>{}</Blobs>", blob(&text, "")), None);
        });
    }
}
