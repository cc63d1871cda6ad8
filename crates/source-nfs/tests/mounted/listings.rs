//! Servers with strange cookies.

use std::collections::BTreeSet;

use pagewell_fs::{Error, FileSystem, Result, SetAttributes};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::Procedure;

use super::Mount;
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer, make_file};

/// Shows other cookies than there are.
struct Shows<F>(F);

impl<F: Fn(u64) -> u64 + Send + Sync> Hook for Shows<F> {
    fn before(&self, _: &Event<'_>) -> Result<()> {
        Ok(())
    }

    fn cookie(&self, inner: u64) -> u64 {
        self.0(inner)
    }
}

/// A server of so many files behind a hook.
fn server_of(count: usize, hook: impl Hook + 'static) -> Server {
    let memory = ram();
    for number in 0..count {
        make_file(&*memory, format!("file{number:05}").as_bytes(), b"");
    }
    let (layer, _) = Layer::new(memory, hook);
    serve(vec![export("/", layer)])
}

/// Adds up to `room` names of the root to `names`, from `cookie` on; whether these were the last.
fn list_on(
    mount: &Mount,
    room: usize,
    (names, cookie): (&mut Vec<String>, &mut u64),
) -> Result<bool> {
    let full = names.len() + room;
    let (files, call) = (&mount.filesystem, mount.call());
    let page = files.read_directory(&call, &mount.root(), *cookie, true, &mut |entry| {
        if names.len() == full {
            return false;
        }
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        *cookie = entry.cookie;
        true
    })?;
    Ok(page.end)
}

/// Names of the root as a front takes them that has room for so many at a time, in the order in
/// which they are listed.
fn list_by(mount: &Mount, room: usize) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut cookie = 0;
    loop {
        let before = names.len();
        let is_end = list_on(mount, room, (&mut names, &mut cookie))?;
        // The kernel asks once more after the last.
        if is_end && names.len() == before {
            return Ok(names);
        }
        assert!(names.len() < 100_000, "it does not end");
    }
}

fn assert_complete(names: &[String], count: usize) {
    let different: BTreeSet<_> = names.iter().collect();
    assert_eq!((names.len(), different.len()), (count + 2, count + 2));
}

#[test]
fn cookies_of_entries_from_which_nobody_goes_on_at_the_server_do_not_matter() {
    let strange: [fn(u64) -> u64; 5] = [
        // "." has that of the beginning.
        |inner| if inner == 1 { 0 } else { inner },
        |_| 0,
        |_| 7,
        |inner| inner % 3,
        // The last one leads to the beginning.
        |inner| if inner == 42 { 0 } else { inner },
    ];
    for (number, cookie) in strange.into_iter().enumerate() {
        let server = server_of(40, Shows(cookie));
        for room in [1, 3, 1000] {
            let mount = Mount::new(&server, "");
            let names = list_by(&mount, room).expect("listed");
            assert_complete(&names, 40);
            let pages = mount.calls(Procedure::ReaddirPlus);
            assert_eq!(pages, 1, "{number} by {room}");
        }
    }
}

#[test]
fn a_listing_that_is_not_kept_goes_on_by_its_position() {
    for room in [1, 7] {
        let server = server_of(40, Shows(|_| 0));
        let (mount, other) = (Mount::new(&server, "noac"), Mount::new(&server, ""));
        let mut names = Vec::new();
        let mut cookie = 0;
        let mut is_end = false;
        for number in 0.. {
            is_end |= list_on(&mount, room, (&mut names, &mut cookie)).expect("listed");
            if is_end {
                break;
            }
            // What is kept is of a directory that was another.
            other.create(&format!("new{number}"));
            assert!(number < 1000, "it does not end");
            if names.len() >= 42 {
                break;
            }
        }
        names.truncate(42);
        assert_complete(&names, 40);
    }
}

#[test]
fn a_page_in_which_cookies_repeat_is_gone_on_from_by_its_last() {
    // One in a hundred, and none near the end of a page.
    let twice = |inner: u64| if inner % 100 == 50 { inner - 1 } else { inner };
    let server = server_of(5000, Shows(twice));
    let mount = Mount::new(&server, "");
    let names = list_by(&mount, 100).expect("listed");
    assert!(mount.calls(Procedure::ReaddirPlus) > 1);
    assert_complete(&names, 5000);
}

/// Lists the root of `server`, of so many files and of directories whose listings drop its own
/// from memory between any two answers.
fn assert_complete_without_pages(server: &Server, count: usize, room: usize) {
    let mount = Mount::new(server, "");
    let make = |number: usize| {
        let (files, call, name) = (&mount.filesystem, mount.call(), format!("other{number}"));
        let how = SetAttributes::default();
        let made = files.make_directory(&call, &mount.root(), name.as_bytes(), &how);
        made.expect("made").entry.id
    };
    let others: Vec<_> = (0..20).map(make).collect();
    let (mut names, mut cookie) = (Vec::new(), 0);
    while !list_on(&mount, room, (&mut names, &mut cookie)).expect("listed") {
        assert!(names.len() < 100_000, "it does not end");
        for directory in &others {
            Mount::list(&mount, directory, true);
        }
    }
    assert_complete(&names, count + others.len());
}

#[test]
fn a_page_whose_place_is_not_known_any_more_is_counted_from_the_beginning() {
    let twice = |inner: u64| if inner % 100 == 50 { inner - 1 } else { inner };
    assert_complete_without_pages(&server_of(5000, Shows(twice)), 5000, 1520);
}

#[test]
fn a_server_that_does_not_take_its_own_cookie_is_asked_anew_after_other_listings() {
    assert_complete_without_pages(&server_of(1000, TakesNoCookie), 1000, 300);
}

#[test]
fn listings_that_do_not_go_on_end_with_an_error() {
    let strange: [fn(u64) -> u64; 3] = [
        // Back to a page that was before.
        |inner| if inner < 3000 { inner } else { 700 },
        |_| 0,
        |_| 7,
    ];
    for cookie in strange {
        let server = server_of(4000, Shows(cookie));
        let listed = list_by(&Mount::new(&server, ""), 1_000_000);
        let Err(Error::Io(text)) = listed else {
            panic!("{listed:?}");
        };
        assert_eq!(text, "the listing does not go on");
    }
}

/// Takes no cookie but that of the beginning.
struct TakesNoCookie;

impl Hook for TakesNoCookie {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        Error::BadCookie.when(event.operation == "read_directory" && event.offset != 0)
    }
}

#[test]
fn a_server_that_does_not_take_its_own_cookie_is_asked_for_all_at_once() {
    let server = server_of(3000, TakesNoCookie);
    for room in [50, 100_000] {
        let mount = Mount::new(&server, "");
        assert_complete(&list_by(&mount, room).expect("listed"), 3000);
        let asked = mount.calls(Procedure::ReaddirPlus) + mount.calls(Procedure::Readdir);
        assert!(asked <= 5, "{asked} calls");
        // It is known from then on.
        let again = Mount::list(&mount, &mount.root(), false);
        assert_eq!(again.len(), 3000);
    }
}

#[test]
fn a_directory_that_does_not_fit_into_one_answer_is_an_error_with_the_name_of_the_servers() {
    let server = server_of(40_000, TakesNoCookie);
    let mount = Mount::new(&server, "");
    let error = list_by(&mount, 100_000).unwrap_err();
    assert_eq!(error, Error::BadCookie);
    assert!(error.to_string().contains("NFS3ERR_BAD_COOKIE"), "{error}");
    let asked = mount.calls(Procedure::ReaddirPlus) + mount.calls(Procedure::Readdir);
    assert!(asked <= 6, "{asked} calls");
}
