//! RFC 1813, sections 3.3.16 and 3.3.17: cookies, verifiers, sizes of replies, large directories,
//! narrow cookies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pagewell_fs::DirectoryEntry;
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::{Procedure, ReaddirArguments, Status};

use crate::client::Client;
use crate::fixture::{Fixture, Kind, connect, export, on_each_kind, ram, serve};
use crate::layer::{Event, Hook, Layer, Stalls};
use crate::million::Million;
use crate::operations::handle;
use crate::pages::{Name, sorted};
use crate::process::Process;

/// A reply no server here may exceed, whatever the client allows.
const PAGE_BYTES_MAX: usize = 256 << 10;

fn name(prefix: &str, number: usize) -> Vec<u8> {
    format!("{prefix}-{number}").into_bytes()
}

fn fill(client: &mut Client, directory: &[u8], prefix: &str, count: usize) {
    for number in 0..count {
        client.make_file(directory, &name(prefix, number), b"");
    }
}

fn assert_once(names: &[Name], prefix: &str, count: usize) {
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    for name in names {
        *seen.entry(&name.name).or_default() += 1;
    }
    for number in 0..count {
        let name = name(prefix, number);
        assert_eq!(seen.get(&name[..]), Some(&1), "{prefix}-{number}");
    }
}

/// A cookie is of its entry: listing page by page while other names come and go shows
/// each name that stays exactly once.
#[test]
fn names_that_stay_are_listed_exactly_once_while_others_come_and_go() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let directory = client.make_directory(&root, b"directory");
        fill(&mut client, &directory, "stay", 120);
        fill(&mut client, &directory, "gone", 60);
        let mut names: Vec<Name> = Vec::new();
        let (mut cookie, mut pages) = (0, 0);
        loop {
            let page = client.readdir(&directory, cookie, [0; 8], 700).unwrap();
            names.extend(page.names);
            if page.end {
                break;
            }
            cookie = names.last().unwrap().cookie;
            for number in [pages * 2, pages * 2 + 1] {
                // The last of these are gone already.
                let _ = client.remove(&directory, &name("gone", number));
                client.make_file(&directory, &name("new", number), b"");
            }
            pages += 1;
            assert!(pages < 500, "the listing does not end");
        }
        assert!(pages > 5);
        assert_once(&names, "stay", 120);
        let cookies: HashSet<u64> = names.iter().map(|name| name.cookie).collect();
        assert_eq!(cookies.len(), names.len(), "a cookie twice");
    });
}

/// Cookies do not depend on the object: names of one file have one each.
#[test]
fn each_hard_link_has_its_own_cookie() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let directory = client.make_directory(&root, b"directory");
        let file = client.make_file(&directory, b"link-0", b"");
        for number in 1..40 {
            client
                .link(&file, &directory, &name("link", number))
                .unwrap();
        }
        let names = client.list_from(&directory, 0, 300);
        assert_once(&names, "link", 40);
        let of_links = names.iter().filter(|name| name.name.starts_with(b"link"));
        let ids: HashSet<u64> = of_links.map(|name| name.file_id).collect();
        assert_eq!(ids.len(), 1);
    });
}

/// A cookie is good after a restart of the server, and after its own entry is gone.
#[test]
fn cookies_outlive_a_restart_and_their_own_entry() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let folder = tempfile::tempdir().unwrap();
        let server = Process::of_directory(folder.path(), kind);
        let (mut client, root) = server.client();
        fill(&mut client, &root, "stay", 80);
        let first = client.readdir(&root, 0, [0; 8], 1500).unwrap();
        let last = first.names.last().unwrap().clone();
        client.remove(&root, &last.name).unwrap();
        server.kill();
        let server = Process::of_directory(folder.path(), kind);
        let (mut client, root) = server.client();
        let mut names = first.names;
        names.extend(client.list_from(&root, last.cookie, 1500));
        assert_once(&names, "stay", 80);
    }
}

/// A directory that changed between pages is no error, nor is a verifier that the
/// server never gave.
#[test]
fn a_changed_directory_or_another_verifier_is_no_error() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        fill(&mut client, &root, "stay", 60);
        let first = client.readdir(&root, 0, [0; 8], 1000).unwrap();
        let cookie = first.names.last().unwrap().cookie;
        client.make_file(&root, b"new", b"");
        for verifier in [first.verifier, [0; 8], [0xee; 8]] {
            let page = client.readdir(&root, cookie, verifier, 1000).unwrap();
            assert!(!page.names.is_empty());
            let page = client.readdirplus(&root, cookie, verifier, (1000, 4000));
            assert!(!page.unwrap().names.is_empty());
        }
    });
}

/// No entry has cookie 0, which is the start, and READDIR goes on where READDIRPLUS
/// stopped.
#[test]
fn readdir_goes_on_from_a_cookie_of_readdirplus() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        fill(&mut client, &root, "file", 30);
        let plain = client.list(&root);
        assert!(plain.iter().all(|name| name.cookie != 0));
        for dots in [&b"."[..], b".."] {
            assert_eq!(plain.iter().filter(|name| name.name == dots).count(), 1);
        }
        let mut plus = Vec::new();
        let mut cookie = 0;
        loop {
            let page = client
                .readdirplus(&root, cookie, [0; 8], (500, 2000))
                .unwrap();
            plus.extend(page.names);
            cookie = plus.last().unwrap().cookie;
            let rest = client.list_from(&root, cookie, 8192);
            assert_eq!(plus.len() + rest.len(), plain.len());
            if page.end {
                break;
            }
        }
        for (plain, plus) in plain.iter().zip(&plus) {
            assert_eq!((&plain.name, plain.cookie), (&plus.name, plus.cookie));
            assert_eq!(plain.file_id, plus.file_id);
            let (attributes, handle) = plus.object.as_ref().unwrap();
            assert_eq!(client.getattr(handle).unwrap(), *attributes);
        }
    });
}

/// Limits count bytes of XDR: no reply exceeds them, none is empty without being the
/// end, and what does not fit one entry is TOOSMALL.
#[test]
fn no_reply_exceeds_its_limit_and_none_is_empty() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        for length in [1, 2, 3, 4, 5, 64, 253, 254, 255] {
            client.make_file(&root, &vec![b'n'; length], b"");
        }
        let total = client.list(&root).len();
        let mut fitted = (0, 0);
        for limit in (0..=4096).step_by(4) {
            let plain = client.readdir(&root, 0, [0; 8], limit);
            fitted.0 += usize::from(check_page(plain, limit, total));
            let plus = client.readdirplus(&root, 0, [0; 8], (4096, limit));
            fitted.1 += usize::from(check_page(plus, limit, total));
        }
        assert!(fitted.0 > 900 && fitted.1 > 800, "{fitted:?}");
        for count in [0, 1, 40, 100] {
            let page = client.readdirplus(&root, 0, [0; 8], (count, 4096)).unwrap();
            assert!(!page.names.is_empty() && page.names.len() < total);
        }
    });
}

fn check_page(page: Result<crate::pages::Page, Status>, limit: u32, total: usize) -> bool {
    match page {
        Ok(page) => {
            assert!(page.bytes <= limit as usize, "{} over {limit}", page.bytes);
            assert!(!page.names.is_empty() || page.end);
            assert_eq!(page.end, page.names.len() == total);
            true
        }
        Err(status) => {
            assert_eq!(status, Status::TooSmall, "{limit}");
            false
        }
    }
}

/// Also in the middle of a listing, where a long name is next.
#[test]
fn a_long_name_in_the_middle_is_too_small_or_listed() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        for letter in b'a'..=b'j' {
            client.make_file(&root, &[letter; 255], b"");
        }
        let all = client.list(&root);
        for limit in (0..1200).step_by(20) {
            for cookie in [all[1].cookie, all[4].cookie, all.last().unwrap().cookie] {
                match client.readdir(&root, cookie, [0; 8], limit) {
                    Ok(page) => {
                        assert!(page.bytes <= limit as usize);
                        assert!(page.end || !page.names.is_empty());
                    }
                    Err(status) => assert_eq!(status, Status::TooSmall),
                }
            }
        }
    });
}

fn serve_million(narrow: bool) -> (Server, Arc<Million>) {
    let million = Arc::new(Million::new());
    let mut export = export("/", million.clone());
    export.cookies_32bit = narrow;
    (serve(vec![export]), million)
}

/// A listing of a million entries comes in replies of bounded size, each of bounded
/// work, and between any two of them other clients are served.
#[test]
fn a_million_entries_are_listed_in_bounded_replies_while_lookups_run() {
    let (server, million) = serve_million(false);
    let (mut client, root) = connect(&server);
    let (mut other, _) = connect(&server);
    let (mut listed, mut cookie, mut pages) = (0usize, 0, 0usize);
    loop {
        let arguments = ReaddirArguments {
            directory: handle(&root),
            cookie,
            verifier: [0; 8],
            count: 1 << 20,
        };
        let xid = client.start(Procedure::Readdir, &arguments);
        let found = other.lookup(&root, &Million::name(listed as u64 + 1));
        assert_eq!(found.unwrap().attributes.file_id, listed as u64 + 1);
        let answer = client.finish(xid);
        let page = crate::pages::page_of(&answer).unwrap();
        assert!(page.bytes <= PAGE_BYTES_MAX);
        for name in &page.names {
            listed += 1;
            assert_eq!(name.file_id, listed as u64);
            cookie = name.cookie;
        }
        pages += 1;
        if page.end {
            break;
        }
    }
    assert_eq!(listed as u64, Million::ENTRIES);
    assert!(pages >= 100, "{pages} pages");
    let most = million.visited_max();
    assert!(
        most <= PAGE_BYTES_MAX / 24,
        "{most} entries visited for one reply"
    );
}

/// No lock of a directory or of the connection is held over a listing: while the file
/// system holds one, lookups in the same directory are answered on this and on other connections.
#[test]
fn lookups_are_answered_while_a_listing_is_held() {
    let (layer, stalls) = Layer::new(ram(), Stalls::at(&["read_directory"]));
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    client.make_file(&root, b"file", b"content");
    let arguments = ReaddirArguments {
        directory: handle(&root),
        cookie: 0,
        verifier: [0; 8],
        count: 4096,
    };
    let listing = client.start(Procedure::Readdir, &arguments);
    stalls.gate.wait_for(1);
    let (mut other, _) = connect(&server);
    for _ in 0..20 {
        let file = other.lookup(&root, b"file").unwrap().handle;
        assert_eq!(client.lookup(&root, b"file").unwrap().handle, file);
        assert_eq!(client.read(&file, 0, 100).unwrap().bytes, b"content");
    }
    stalls.gate.open();
    let page = crate::pages::page_of(&client.finish(listing)).unwrap();
    assert_eq!(sorted(&page.names), [b"file"]);
}

/// With the export's flag set, all cookies and file numbers are below 2^31, also of a
/// million entries, none comes twice, and each resumes the listing.
#[test]
fn narrow_cookies_are_below_two_to_the_31_and_unique() {
    let (server, _) = serve_million(true);
    let (mut client, root) = connect(&server);
    let names = client.list_from(&root, 0, 1 << 20);
    assert_eq!(names.len() as u64, Million::ENTRIES);
    let mut cookies = HashSet::new();
    for name in &names {
        assert!(name.cookie > 0 && name.cookie < 1 << 31);
        assert!(name.file_id < 1 << 31);
        assert!(cookies.insert(name.cookie), "a cookie twice");
    }
    for number in [0, 1, 500_000, 999_998] {
        let page = client
            .readdir(&root, names[number].cookie, [0; 8], 500)
            .unwrap();
        assert_eq!(page.names[0], names[number + 1]);
    }
}

/// The same on real file systems, with READDIRPLUS, while names come and go.
#[test]
fn narrow_cookies_resume_on_each_kind() {
    for kind in Kind::ALL {
        let fixture = Fixture::with(kind, |export| export.cookies_32bit = true);
        let (mut client, root) = fixture.client();
        fill(&mut client, &root, "stay", 50);
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let page = client
                .readdirplus(&root, cookie, [0; 8], (400, 4096))
                .unwrap();
            names.extend(page.names);
            if page.end {
                break;
            }
            cookie = names.last().unwrap().cookie;
            client.make_file(&root, &name("new", names.len()), b"");
        }
        assert_once(&names, "stay", 50);
        for name in &names {
            let (attributes, _) = name.object.as_ref().unwrap();
            assert!(name.cookie < 1 << 31 && attributes.file_id < 1 << 31);
        }
        let unknown = client.readdir(&root, (1 << 31) - 1, [0; 8], 4096);
        assert_eq!(unknown.unwrap_err(), Status::BadCookie);
    }
}

/// A source that lists names alone.
struct NamesAlone;

impl Hook for NamesAlone {
    fn before(&self, _: &Event<'_>) -> pagewell_fs::Result<()> {
        Ok(())
    }

    fn entry<'e>(&self, inner: &DirectoryEntry<'e>) -> Option<DirectoryEntry<'e>> {
        Some(DirectoryEntry {
            entry: None,
            ..*inner
        })
    }
}

#[test]
fn readdirplus_tells_attributes_and_handles_also_where_its_source_lists_names_alone() {
    let (layer, _) = Layer::new(ram(), NamesAlone);
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    fill(&mut client, &root, "file", 500);
    let (mut names, mut cookie): (Vec<Name>, u64) = (Vec::new(), 0);
    loop {
        let sizes = (1 << 20, 1 << 20);
        let page = client.readdirplus(&root, cookie, [0; 8], sizes).unwrap();
        assert!(!page.names.is_empty() && page.names.len() < 300, "bounded");
        names.extend(page.names);
        if page.end {
            break;
        }
        cookie = names.last().unwrap().cookie;
    }
    assert_once(&names, "file", 500);
    assert_eq!(names.len(), 502);
    for entry in &names {
        let (attributes, handle) = entry.object.as_ref().unwrap();
        assert_eq!(attributes.file_id, entry.file_id);
        assert_eq!(client.getattr(handle).unwrap().file_id, entry.file_id);
    }
}
