//! Listings that remember attributes show what is true at that moment, whatever changed it.

use super::*;
use pagewell_counters::names;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// Size, mode, links and change time of each name as a listing shows them and as they are.
fn compare(fixture: &Fixture, what: &str) {
    let root = root_credentials();
    let mut seen = 0;
    let page = fixture.files.read_directory(
        &waiting(&root),
        &fixture.id("many"),
        0,
        true,
        &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                let name = std::str::from_utf8(entry.name).unwrap();
                let truth = std::fs::symlink_metadata(fixture.path("many").join(name)).unwrap();
                let shown = entry.entry.unwrap_or_else(|| panic!("{name} {what}"));
                let attributes = shown.attributes;
                assert_eq!(attributes.size, truth.len(), "{name} {what}");
                assert_eq!(attributes.mode, truth.mode() & 0o7777, "{name} {what}");
                assert_eq!(
                    u64::from(attributes.link_count),
                    truth.nlink(),
                    "{name} {what}"
                );
                let changed = (truth.ctime(), truth.ctime_nsec());
                let shown_change = attributes.changed;
                assert_eq!(
                    (shown_change.seconds, i64::from(shown_change.nanoseconds)),
                    changed,
                    "{name} {what}"
                );
                assert_eq!(
                    shown.id,
                    fixture.id(&format!("many/{name}")),
                    "{name} {what}"
                );
                seen += 1;
            }
            true
        },
    );
    assert!(page.unwrap().end);
    let names = std::fs::read_dir(fixture.path("many")).unwrap();
    assert_eq!(seen, names.count(), "{what}");
}

#[test]
fn what_is_remembered_is_forgotten_with_every_kind_of_change() {
    if !is_root() {
        return;
    }
    let fixture = &Fixture::new(Options::default());
    let many = fixture.path("many");
    std::fs::create_dir(&many).unwrap();
    std::fs::create_dir(many.join("folder")).unwrap();
    for number in 0..200 {
        std::fs::write(many.join(format!("f{number}")), b"x").unwrap();
    }
    let at = |name: &str| many.join(name);
    compare(fixture, "at first");
    let before = names::DIR_ATTRIBUTES_REMEMBERED.get();
    compare(fixture, "again");
    let used = names::DIR_ATTRIBUTES_REMEMBERED.get() > before;
    assert!(
        used || names::DIR_WATCHES_REFUSED.get() > 0,
        "nothing was remembered"
    );

    std::fs::write(at("f0"), b"longer").unwrap();
    compare(fixture, "after a local write");
    fixture.put(&fixture.id("many/f1"), 0, b"by handle");
    compare(fixture, "after a write by handle");
    let access_time = SetAttributes {
        accessed: Some(pagewell_fs::SetTime::ToServerTime),
        ..SetAttributes::default()
    };
    let root = root_credentials();
    let id = fixture.id("many/f9");
    let changed = fixture
        .files
        .set_attributes(&waiting(&root), &id, &access_time, None);
    assert!(changed.is_ok());
    compare(fixture, "after an access time was set");
    chmod(&at("f2"), 0o600);
    compare(fixture, "after a local chmod");
    std::fs::hard_link(at("f3"), fixture.path("elsewhere")).unwrap();
    compare(fixture, "after a link from elsewhere");
    std::fs::write(fixture.path("elsewhere"), b"by another name").unwrap();
    compare(fixture, "after a write by another name");
    std::fs::rename(at("f4"), at("f5")).unwrap();
    compare(fixture, "after a rename over another");
    std::fs::remove_file(at("f6")).unwrap();
    std::fs::write(at("f7-new"), b"may have the inode of f6").unwrap();
    compare(fixture, "after an inode was used again");
    std::fs::create_dir(at("folder").join("inner")).unwrap();
    compare(fixture, "after a directory got a directory");
    let open = std::fs::OpenOptions::new()
        .append(true)
        .mode(0o600)
        .open(at("f8"))
        .unwrap();
    compare(fixture, "while a file is open for writing");
    std::io::Write::write_all(&mut &open, b"appended").unwrap();
    compare(fixture, "after a write through an old descriptor");
    open.set_len(100_000).unwrap();
    compare(fixture, "after a truncation");
}

#[test]
fn attributes_are_not_remembered_for_who_may_not_search() {
    if !is_root() {
        return;
    }
    let fixture = &Fixture::new(Options::default());
    let many = fixture.path("many");
    std::fs::create_dir(&many).unwrap();
    std::fs::write(many.join("file"), b"x").unwrap();
    compare(fixture, "at first");
    chmod(&many, 0o744);
    let stranger = Credentials::new(4242, 4242, &[]);
    let id = fixture.id("many");
    let mut entries = Vec::new();
    let page = fixture
        .files
        .read_directory(&waiting(&stranger), &id, 0, true, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.entry.is_some()));
            true
        });
    assert!(page.is_ok());
    assert!(entries.contains(&(b"file".to_vec(), false)), "{entries:?}");
}

/// Names of a directory as they are listed page after page, and what is done between two pages.
fn pages(fixture: &Fixture, mut between: impl FnMut(usize)) -> Vec<String> {
    let root = root_credentials();
    let id = fixture.id("many");
    let (mut names, mut cookie) = (Vec::new(), 0);
    for number in 0.. {
        let mut left = 7;
        let page = fixture
            .files
            .read_directory(&waiting(&root), &id, cookie, true, &mut |entry| {
                if left == 0 {
                    return false;
                }
                left -= 1;
                cookie = entry.cookie;
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                true
            });
        if page.unwrap().end {
            break;
        }
        between(number);
    }
    names.sort();
    names
}

#[test]
fn names_are_kept_for_all_pages_and_forgotten_when_one_changes() {
    if !is_root() {
        return;
    }
    let fixture = &Fixture::new(Options::default());
    let many = fixture.path("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..200 {
        std::fs::write(many.join(format!("f{number:03}")), b"x").unwrap();
    }
    let truth = || {
        let names = std::fs::read_dir(&many).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.chain([".".into(), "..".into()]).collect();
        names.sort();
        names
    };
    // A listing is continued once the times of its directory have settled.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(pages(fixture, |_| ()), truth(), "from the kernel");
    let before = names::DIR_LISTINGS_REMEMBERED.get();
    assert_eq!(pages(fixture, |_| ()), truth(), "as they were kept");
    let used = names::DIR_LISTINGS_REMEMBERED.get() - before;
    assert!(
        used > 20 || names::DIR_WATCHES_REFUSED.get() > 0,
        "{used} pages of names that were kept"
    );
    let then = std::fs::metadata(&many).unwrap();
    let root = root_credentials();
    let page =
        fixture
            .files
            .read_directory(&waiting(&root), &fixture.id("many"), 0, true, &mut |_| {
                std::fs::write(many.join("during"), b"x").unwrap();
                true
            });
    let shown = page.unwrap().attributes.modified;
    // Else a client would take the names from before for those of after.
    assert!(
        (shown.seconds, i64::from(shown.nanoseconds)) == (then.mtime(), then.mtime_nsec())
            || names::DIR_WATCHES_REFUSED.get() > 0,
        "names of before have the times of before"
    );
    std::fs::rename(many.join("f001"), many.join("g001")).unwrap();
    assert_eq!(pages(fixture, |_| ()), truth(), "after a name changed");
    // Names that nothing happens to come once each, whatever happens to others meanwhile.
    let listed = pages(fixture, |page| {
        std::fs::write(many.join(format!("h{page:03}")), b"x").unwrap();
        let _ = std::fs::remove_file(many.join(format!("f{:03}", 199 - page)));
    });
    let untouched = (2..150).map(|number| format!("f{number:03}"));
    for name in untouched {
        let times = listed.iter().filter(|listed| **listed == name).count();
        assert_eq!(times, 1, "{name}");
    }
    assert_eq!(pages(fixture, |_| ()), truth(), "at last");
    std::fs::remove_file(many.join("f003")).unwrap();
    std::fs::rename(&many, fixture.path("moved")).unwrap();
    std::fs::rename(fixture.path("moved"), &many).unwrap();
    assert_eq!(pages(fixture, |_| ()), truth(), "after it was moved");
}

/// The kernel moves the times first and copies the bytes afterwards.
#[test]
fn nothing_shows_the_times_of_a_write_at_work() {
    with_both(|fixture| {
        let (files, root) = (&fixture.files, fixture.root());
        let id = fixture.make(&root, "f", b"short");
        let who = root_credentials();
        let call = waiting(&who);
        let listed = || {
            let mut found = None;
            let page = files.read_directory(&call, &root, 0, true, &mut |entry| {
                if entry.name == b"f" {
                    found = entry.entry;
                }
                true
            });
            assert!(page.unwrap().end);
            found.unwrap().attributes
        };
        let object = files.tree().objects().object(&call, &id).unwrap();
        let writing = object.begin_write(&object.status().unwrap());
        std::fs::write(fixture.path("f"), b"longer").unwrap();
        let now = files.attributes(&call, &id).unwrap();
        assert_eq!(now.size, 5);
        assert_eq!(listed(), now);
        let mode = CreateMode::Unchecked(SetAttributes::default());
        let made = files.create(&call, &root, b"f", &mode).unwrap();
        assert_eq!(made.entry.attributes, now);
        let (linked, _) = files.link(&call, &id, &root, b"g").unwrap();
        assert_eq!(linked, now);
        drop(writing);
        // Nor is it remembered.
        let now = files.attributes(&call, &id).unwrap();
        assert_eq!((now.size, listed()), (6, now));
    });
}
