//! Pages of List Blobs.
//!
//! A name that XML cannot hold is encoded, and marked so. Directories are no objects:
//!
//! ```text
//!   hierarchical namespace   with a delimiter a prefix, also when it is empty; without one a blob
//!                            DIR of the type "directory"
//!   other programs           a blob DIR with `hdi_isfolder` in its metadata, and the prefix DIR/
//!   (blobfuse, Hadoop)       unless it is empty
//! ```

use std::collections::BTreeSet;

use super::is_directory_mark;
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

fn is_directory(blob: &Element) -> bool {
    let has = |within: &str, is_it: &dyn Fn(&Element) -> bool| {
        let within = blob.first(within);
        within.is_some_and(|within| within.inner.iter().any(is_it))
    };
    has("Properties", &|one| {
        one.name == "ResourceType" && one.text == "directory"
    }) || has("Metadata", &|one| {
        is_directory_mark(&one.name, one.text.trim().as_bytes())
    })
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
    let mut given = BTreeSet::new();
    for blob in found.all("Blob") {
        let properties = blob.first("Properties").unwrap_or(&none);
        let key = name_of(blob, query)?;
        if is_directory(blob) && !key.ends_with('/') {
            given.insert(format!("{key}/"));
            continue;
        }
        let size = properties.text_of("Content-Length").trim();
        let length_bytes = size.parse().map_err(|_| format!("{key:?} has no size"))?;
        let version = Version {
            etag: quoted(properties.text_of("Etag")),
            last_modified: date::http(properties.text_of("Last-Modified").trim()),
            length_bytes,
        };
        page.objects.push(ListedObject { key, version });
    }
    for prefix in found.all("BlobPrefix") {
        given.insert(name_of(prefix, query)?);
    }
    if query.delimiter {
        page.prefixes = given.into_iter().collect();
    }
    let next = answer.text_of("NextMarker");
    if !next.is_empty() {
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
        assert_eq!(listed(&inner, Some("2!8!cA--")).expect("a page"), page);
    }

    #[test]
    fn directories_are_no_objects() {
        let of_type = |name: &str| blob(name, "<ResourceType>directory</ResourceType>");
        let marked = |name: &str, mark: &str| {
            let metadata = format!("</Properties><Metadata>{mark}</Metadata>");
            blob(name, "").replace("</Properties>", &metadata)
        };
        let mark = "<hdi_isfolder>true</hdi_isfolder>";
        let prefix = "<BlobPrefix><Name>p/d/</Name><Properties><Etag>0x8DE2</Etag>\
             <ResourceType>directory</ResourceType><Content-Length>0</Content-Length>\
             </Properties></BlobPrefix>";
        let blobs = [
            marked("p/d", &mark.replace("hdi_isfolder", "Hdi_isFolder")),
            marked("p/empty", mark),
            marked("p/file", &mark.replace("true", "false")),
            of_type("p/z"),
            prefix.to_owned(),
        ];
        let inner = format!("<Blobs>{}</Blobs>", blobs.concat());
        let page = listed(&inner, None).expect("a page");
        assert_eq!(page.objects.len(), 1);
        assert_eq!(page.objects[0].key, "p/file");
        assert_eq!(page.prefixes, ["p/d/", "p/empty/", "p/z/"]);
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
