//! Pages of a listing, and all objects below a prefix.

use std::collections::HashSet;

use serde_json::Value;

use super::Bucket;
use super::resource::version;
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::json::{list_of, text_of};
use crate::remote::{ListPage, ListQuery, ListedObject};
use crate::service::{Wanted, exchange};
use crate::transport::Call;

const PAGE_ENTRIES_MAX: u32 = 1000;
/// Bytes of a page: 1,000 objects with 8 KiB of metadata and keys of 1,024 bytes.
const LIST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Pages of a list that is wanted whole.
const PAGES_MAX: usize = 1_000;
const FIELDS: &str = "nextPageToken,prefixes,items(name,size,generation,updated,contentEncoding)";
const FIELDS_OF_PARTS: &str = "nextPageToken,items(name,metadata,timeCreated)";

async fn asked(bucket: &Bucket, pairs: &[(&str, &str)]) -> Result<(Call, Value)> {
    let call = Call::new(Kind::List, hyper::Method::GET, bucket.objects(pairs));
    let ended = exchange(bucket, &call, Wanted::Body(LIST_BYTES_MAX)).await;
    let answer = match ended.result {
        Ok(answer) => answer,
        Err(Error::NotFound) => return Err(bucket.is_missing()),
        Err(error) => return Err(error),
    };
    let document = serde_json::from_slice(&answer.body).map_err(|error| {
        let shown = call.target.shown();
        Error::Protocol(format!("{shown}: the listing is wrong: {error}"))
    })?;
    Ok((call, document))
}

pub(crate) async fn list(bucket: &Bucket, query: &ListQuery<'_>) -> Result<ListPage> {
    let wanted = query.page_entries_max.clamp(1, PAGE_ENTRIES_MAX);
    let wanted = wanted.to_string();
    let mut pairs = vec![
        ("prefix", query.prefix),
        ("maxResults", wanted.as_str()),
        ("fields", FIELDS),
        ("prettyPrint", "false"),
    ];
    if query.delimiter {
        pairs.push(("delimiter", "/"));
    }
    if let Some(token) = &query.token {
        pairs.push(("pageToken", token));
    }
    let (call, document) = asked(bucket, &pairs).await?;
    page(&document, query).map_err(|text| {
        let shown = call.target.shown();
        Error::Protocol(format!("{shown}: the listing is wrong: {text}"))
    })
}

fn page(document: &Value, query: &ListQuery<'_>) -> std::result::Result<ListPage, String> {
    let below = |key: &str| {
        if key.starts_with(query.prefix) {
            Ok(key.to_owned())
        } else {
            Err(format!("{key:?} does not begin with {:?}", query.prefix))
        }
    };
    let mut page = ListPage::default();
    for item in list_of(document, "items") {
        let key = below(text_of(item, "name"))?;
        let version = version(item).ok_or_else(|| format!("{key:?} has no size"))?;
        page.objects.push(ListedObject { key, version });
    }
    let mut given = HashSet::new();
    for prefix in list_of(document, "prefixes") {
        let prefix = below(prefix.as_str().ok_or("a prefix is no text")?)?;
        if given.insert(prefix.clone()) {
            page.prefixes.push(prefix);
        }
    }
    let next = text_of(document, "nextPageToken");
    if !next.is_empty() {
        page.next = Some(next.to_owned());
    }
    Ok(page)
}

/// Descriptions of at most `objects_max` objects below a prefix: name, metadata and time of
/// creation.
pub(crate) async fn below(bucket: &Bucket, prefix: &str, objects_max: usize) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut token = String::new();
    for _ in 0..PAGES_MAX {
        let mut pairs = vec![
            ("prefix", prefix),
            ("fields", FIELDS_OF_PARTS),
            ("prettyPrint", "false"),
        ];
        if !token.is_empty() {
            pairs.push(("pageToken", &token));
        }
        let (_, document) = asked(bucket, &pairs).await?;
        let items = list_of(&document, "items").iter();
        let items = items.filter(|item| text_of(item, "name").starts_with(prefix));
        let room = objects_max - found.len();
        found.extend(items.take(room).cloned());
        let next = text_of(&document, "nextPageToken");
        if next.is_empty() || next == token || found.len() >= objects_max {
            break;
        }
        token = next.to_owned();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(
        document: &Value,
        prefix: &str,
        token: Option<&str>,
    ) -> std::result::Result<ListPage, String> {
        let query = ListQuery {
            prefix,
            delimiter: true,
            token: token.map(str::to_owned),
            page_entries_max: 1000,
        };
        page(document, &query)
    }

    #[test]
    fn a_page_has_versions_prefixes_and_a_token() {
        let document = json!({"nextPageToken": "t=", "prefixes": ["b/", "c/", "b/"], "items": [
            {"name": "a//\u{e9} %41", "size": "3", "generation": "7",
             "updated": "2026-11-28T03:21:43.500Z"},
            {"name": "z", "size": "0", "generation": "8", "contentEncoding": "gzip"}]});
        let page = read(&document, "", None).expect("a page");
        assert_eq!(page.next.as_deref(), Some("t="));
        assert_eq!(page.prefixes, ["b/", "c/"]);
        assert_eq!(page.objects[0].key, "a//\u{e9} %41");
        assert_eq!(page.objects[0].version.etag.as_deref(), Some("\"7\""));
        assert!(page.objects[0].version.last_modified.is_some());
        assert_eq!(page.objects[1].version.etag.as_deref(), Some("\"8-gzip\""));
        assert_eq!(read(&json!({}), "", None), Ok(ListPage::default()));
    }

    #[test]
    fn a_page_that_leads_nowhere_ends_or_is_wrong() {
        let next = |given| read(&json!({"nextPageToken": given}), "", Some("t")).expect("a page");
        assert_eq!(next("u").next.as_deref(), Some("u"));
        assert_eq!(next("t").next.as_deref(), Some("t"));
        assert_eq!(next("").next, None);
        for document in [
            json!({"items": [{"name": "q/a", "size": "1"}]}),
            json!({"items": [{"name": "p/a"}]}),
            json!({"items": [{"size": "1"}]}),
            json!({"prefixes": ["q/"]}),
            json!({"prefixes": [7]}),
        ] {
            assert!(read(&document, "p/", None).is_err(), "{document}");
        }
    }

    #[test]
    fn any_page_is_read_or_refused() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let named = json!({"items": [{"name": text, "size": text}], "prefixes": [text]});
            let _ = read(&named, "", None);
            if let Ok(document) = serde_json::from_slice::<Value>(bytes) {
                let _ = read(&document, "", None);
            }
        });
    }
}
