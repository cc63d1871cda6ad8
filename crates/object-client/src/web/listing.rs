//! Folders of web servers that a program can read: WebDAV (RFC 4918) where 207 answers PROPFIND,
//! and lists in JSON of nginx (`autoindex_format json`) and caddy. Lists for people alone are
//! refused: their forms are without end.

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use pagewell_base::sync::Mutex;

use crate::activity::Kind;
use crate::date;
use crate::error::{Error, Result};
use crate::location::Origin;
use crate::percent;
use crate::remote::{ListPage, ListedObject};
use crate::service::{Answer, Service, Wanted, exchange};
use crate::transport::{Call, Target};
use crate::version::{Version, quoted};
use crate::xml;

const BYTES_MAX: usize = 32 * 1024 * 1024;
const PROPERTIES: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
    <propfind xmlns=\"DAV:\"><prop><resourcetype/><getcontentlength/><getlastmodified/><getetag/>\
    </prop></propfind>";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Dav,
    Json,
}

#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Option<Form>>);

/// Lists the folder `prefix`, which is at `target`.
pub(crate) async fn list<S: Service>(
    service: &S,
    known: &Known,
    target: Target,
    prefix: &str,
) -> Result<ListPage> {
    let form = *known.0.lock();
    if form != Some(Form::Json) {
        let answer = propfind(service, &target).await;
        match answer {
            Ok(answer) if answer.head.status == StatusCode::MULTI_STATUS => {
                let page = of_dav(&answer.body, prefix).map_err(|text| wrong(&target, &text))?;
                *known.0.lock() = Some(Form::Dav);
                return Ok(page);
            }
            Err(error @ (Error::Unreachable(_) | Error::TryLater(_))) => return Err(error),
            Err(error) if form == Some(Form::Dav) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let mut call = Call::new(Kind::List, Method::GET, target.clone());
    let accepted = HeaderValue::from_static("application/json");
    call.headers.insert(ACCEPT, accepted);
    let answer = exchange(service, &call, Wanted::Body(BYTES_MAX))
        .await
        .result?;
    let is_json = answer.head.text(&CONTENT_TYPE).unwrap_or("");
    if !is_json.starts_with("application/json") {
        let text = "no folder that a program can read (WebDAV, or autoindex_format json)";
        return Err(Error::Unsupported(format!("{}: {text}", target.shown())));
    }
    let page = of_json(&answer.body, prefix).map_err(|text| wrong(&target, &text))?;
    *known.0.lock() = Some(Form::Json);
    Ok(page)
}

fn wrong(target: &Target, text: &str) -> Error {
    Error::Protocol(format!("{}: the list is wrong: {text}", target.shown()))
}

async fn propfind<S: Service>(service: &S, target: &Target) -> Result<Answer> {
    let method =
        Method::from_bytes(b"PROPFIND").map_err(|error| wrong(target, &error.to_string()))?;
    let mut call = Call::new(Kind::List, method, target.clone());
    call.headers.insert("depth", HeaderValue::from_static("1"));
    let xml = HeaderValue::from_static("application/xml");
    call.headers.insert(CONTENT_TYPE, xml);
    call.body = PROPERTIES.into();
    exchange(service, &call, Wanted::Body(BYTES_MAX))
        .await
        .result
}

/// Adds an entry by its name, if it is one of this folder.
fn add(page: &mut ListPage, prefix: &str, name: &str, is_folder: bool, version: Version) {
    let name = name.trim_end_matches('/');
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return;
    }
    if is_folder {
        page.prefixes.push(format!("{prefix}{name}/"));
    } else {
        let key = format!("{prefix}{name}");
        page.objects.push(ListedObject { key, version });
    }
}

fn once(mut page: ListPage) -> ListPage {
    page.prefixes.sort_unstable();
    page.prefixes.dedup();
    page
}

/// The name below `prefix` of a reference: a URL or a path.
fn name_of(href: &str, prefix: &str) -> Option<String> {
    let path = match Origin::parse(href.trim()) {
        Ok((_, path)) => path,
        Err(_) => href.trim(),
    };
    let path = percent::decode_text(path.split(['?', '#']).next()?)?;
    let name = path.strip_prefix('/')?.strip_prefix(prefix)?;
    Some(name.to_owned())
}

fn of_dav(body: &[u8], prefix: &str) -> std::result::Result<ListPage, String> {
    let document = xml::parse(body)?;
    if document.name != "multistatus" {
        return Err(format!("it is a {}", document.name));
    }
    let mut page = ListPage::default();
    for response in document.all("response") {
        let Some(name) = name_of(response.text_of("href"), prefix) else {
            continue;
        };
        // A property that the server does not know comes with a status of its own.
        let found = |name: &str| {
            let properties = response
                .all("propstat")
                .filter_map(|stat| stat.first("prop"));
            properties
                .filter_map(|properties| properties.first(name))
                .next()
        };
        let text = |name: &str| found(name).map_or("", |element| element.text.trim());
        let is_folder =
            found("resourcetype").is_some_and(|kind| kind.first("collection").is_some());
        let length = text("getcontentlength").parse();
        let Ok(length_bytes) = length.or_else(|error| if is_folder { Ok(0) } else { Err(error) })
        else {
            continue;
        };
        let version = Version {
            etag: quoted(text("getetag")),
            last_modified: date::http(text("getlastmodified")),
            length_bytes,
        };
        add(&mut page, prefix, &name, is_folder, version);
    }
    Ok(once(page))
}

fn of_json(body: &[u8], prefix: &str) -> std::result::Result<ListPage, String> {
    let entries: Vec<serde_json::Value> =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let mut page = ListPage::default();
    for entry in &entries {
        let text = |name: &str| entry.get(name).and_then(|value| value.as_str());
        let name = text("name").ok_or("an entry has no name")?;
        let is_folder = text("type") == Some("directory")
            || entry.get("is_dir").and_then(serde_json::Value::as_bool) == Some(true);
        let length = entry.get("size").and_then(serde_json::Value::as_u64);
        let Some(length_bytes) = length.or(is_folder.then_some(0)) else {
            continue;
        };
        let time = text("mtime").and_then(date::http);
        let version = Version {
            etag: None,
            last_modified: time.or_else(|| text("mod_time").and_then(date::iso)),
            length_bytes,
        };
        add(&mut page, prefix, name, is_folder, version);
    }
    Ok(once(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(page: &ListPage) -> Vec<(&str, u64)> {
        let objects = page.objects.iter();
        objects
            .map(|object| (object.key.as_str(), object.version.length_bytes))
            .collect()
    }

    #[test]
    fn webdav_is_read() {
        let body = r#"<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">
            <D:response><D:href>/d/x/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>
            </D:resourcetype><D:getcontentlength>
</D:getcontentlength></D:prop></D:propstat></D:response>
            <D:response><D:href>http://h/d/x/a%23b</D:href><D:propstat><D:prop><D:resourcetype/>
            <D:getcontentlength>7</D:getcontentlength><D:getetag>"e"</D:getetag>
            <D:getlastmodified>Sat, 28 Nov 2026 03:21:43 GMT</D:getlastmodified></D:prop>
            </D:propstat></D:response>
            <D:response><D:href>/d/x/sub/</D:href><D:propstat><D:prop><D:resourcetype>
            <D:collection/></D:resourcetype></D:prop></D:propstat></D:response>
            <D:response><D:href>/elsewhere/y</D:href></D:response>
            <D:response><D:href>/d/x/deep/y</D:href><D:propstat><D:prop><D:getcontentlength>1
            </D:getcontentlength></D:prop></D:propstat></D:response>
            <D:response><D:href>/d/x/%zz</D:href></D:response></D:multistatus>"#;
        let page = of_dav(body.as_bytes(), "d/x/").expect("a list");
        assert_eq!(keys(&page), [("d/x/a#b", 7)]);
        assert_eq!(page.objects[0].version.etag.as_deref(), Some("\"e\""));
        assert!(page.objects[0].version.last_modified.is_some());
        assert_eq!(page.prefixes, ["d/x/sub/"]);
        assert!(of_dav(b"<html/>", "").is_err());
    }

    #[test]
    fn lists_in_json_are_read() {
        let nginx = br#"[{"name":"sub","type":"directory","mtime":"Sat, 28 Nov 2026 03:21:43 GMT"},
            {"name":"a b","type":"file","mtime":"Sat, 28 Nov 2026 03:21:43 GMT","size":3},
            {"name":"../x","type":"file","size":3},{"name":"..","type":"directory"},
            {"name":"sub","type":"directory"}]"#;
        let page = of_json(nginx, "d/").expect("a list");
        assert_eq!(keys(&page), [("d/a b", 3)]);
        assert_eq!(page.prefixes, ["d/sub/"]);
        let caddy = br#"[{"name":"sub/","is_dir":true,"size":4096},
            {"name":"f","size":5,"is_dir":false,"mod_time":"2026-11-28T03:21:43.5Z"}]"#;
        let page = of_json(caddy, "").expect("a list");
        assert_eq!(keys(&page), [("f", 5)]);
        assert!(page.objects[0].version.last_modified.is_some());
        assert_eq!(page.prefixes, ["sub/"]);
        for body in [&b"{}"[..], b"[{}]", b"[1]", b"", b"<html>"] {
            assert!(of_json(body, "").is_err());
        }
    }

    #[test]
    fn any_list_is_read_or_refused() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = of_json(bytes, "d/");
            let text = xml::escaped(&String::from_utf8_lossy(bytes));
            let body = format!(
                "<multistatus><response><href>/d/{text}</href><propstat><prop>\
                 <getcontentlength>1</getcontentlength></prop></propstat></response></multistatus>"
            );
            let page = of_dav(body.as_bytes(), "d/").expect("a list");
            for object in page.objects {
                let name = object.key.strip_prefix("d/").expect("of this folder");
                assert!(!name.is_empty() && !name.contains('/'));
            }
        });
    }
}
