//! Names: what they cost, and whose changes are seen when.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_fs::{
    Access, Call, CreateMode, Credentials, Error, FileSystem, FileType, Finish, NodeKind, Opened,
    RenameMode, Result, SetAttributes,
};
use pagewell_sunrpc::nfs3::Procedure;

use super::{LASTING, Mount, pattern, server};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Gate, Hook, Layer, make_file};

#[test]
fn names_are_asked_for_once() {
    let (server, ram) = server();
    make_file(&*ram, b"there", b"x");
    let mount = Mount::new(&server, LASTING);
    for _ in 0..10 {
        mount.lookup("there").unwrap();
        assert_eq!(mount.lookup("missing"), Err(Error::NotFound));
    }
    assert_eq!(mount.calls(Procedure::Lookup), 2);
    // Changes of our own are entered.
    let made = mount.create("missing");
    assert_eq!(mount.lookup("missing"), Ok(made));
    mount
        .filesystem
        .remove(&mount.call(), &mount.root(), b"there")
        .unwrap();
    assert_eq!(mount.lookup("there"), Err(Error::NotFound));
    mount
        .filesystem
        .rename(
            &mount.call(),
            (&mount.root(), b"missing"),
            (&mount.root(), b"there"),
            RenameMode::Replace,
        )
        .unwrap();
    assert_eq!(mount.lookup("there"), Ok(made));
    // Its time of change is another after that, which nobody has told.
    assert_eq!(mount.calls(Procedure::Lookup), 3);
}

#[test]
fn changes_of_others_are_seen_when_the_directory_is_asked_for() {
    let (server, _) = server();
    let (one, other) = (
        Mount::new(&server, "acdirmin=0&acdirmax=0"),
        Mount::new(&server, ""),
    );
    assert_eq!(one.lookup("new"), Err(Error::NotFound));
    let id = other.create("new");
    assert_eq!(one.lookup("new"), Ok(id));
    other
        .filesystem
        .remove(&other.call(), &other.root(), b"new")
        .unwrap();
    assert_eq!(one.lookup("new"), Err(Error::NotFound));
    let again = other.create("new");
    assert_ne!(again, id);
    assert_eq!(one.lookup("new"), Ok(again));
}

#[test]
fn an_open_directory_can_be_used_without_its_name() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let (files, call, root) = (&mount.filesystem, mount.call(), mount.root());
    let make = |name: &[u8]| {
        let attributes = SetAttributes::default();
        let made = files.make_directory(&call, &root, name, &attributes);
        made.unwrap().entry.id
    };
    for way in ["rmdir", "rename"] {
        let directory = make(b"open");
        let hold = files.hold(&call, &directory).unwrap();
        let before = mount.attributes(&directory);
        if way == "rmdir" {
            files.remove_directory(&call, &root, b"open").unwrap();
        } else {
            make(b"other");
            files
                .rename(
                    &call,
                    (&root, b"other"),
                    (&root, b"open"),
                    RenameMode::Replace,
                )
                .unwrap();
        }
        let after = mount.attributes(&directory);
        assert_eq!((after.file_id, after.link_count), (before.file_id, 0));
        assert!(mount.list(&directory, false).is_empty());
        let inside = files.lookup(&call, &directory, b"x");
        assert_eq!(inside.map(drop), Err(Error::NotFound));
        drop(hold);
        let gone = files.attributes(&call, &directory);
        assert_eq!(gone.map(drop), Err(Error::Stale));
    }
}

#[test]
fn a_listing_brings_what_is_asked_for_next() {
    let (server, ram) = server();
    let mut expected = Vec::new();
    for number in 0..1000 {
        let name = format!("file{number:04}");
        make_file(&*ram, name.as_bytes(), b"");
        expected.push(name);
    }
    let mount = Mount::new(&server, LASTING);
    let mut names = mount.list(&mount.root(), true);
    names.sort();
    assert_eq!(names, expected);
    let pages = mount.calls(Procedure::ReaddirPlus);
    assert!((1..=8).contains(&pages), "{pages} pages");
    for name in &names {
        mount.lookup(name).unwrap();
    }
    assert_eq!(mount.calls(Procedure::Lookup), 0);
    assert_eq!(mount.list(&mount.root(), false).len(), 1000);
    // Fronts tell the type of what they list, also when nobody asks for attributes.
    let anew = Mount::new(&server, "");
    let mut types = 0;
    let mut count = |entry: &pagewell_fs::DirectoryEntry<'_>| {
        types += usize::from(entry.entry.is_some());
        true
    };
    let listed = anew
        .filesystem
        .read_directory(&anew.call(), &anew.root(), 0, false, &mut count);
    assert!(listed.unwrap().end);
    assert_eq!(types, 1002);
    assert_eq!(
        mount.calls(Procedure::ReaddirPlus) + mount.calls(Procedure::Readdir),
        pages
    );
    // Our own changes show in a listing that begins anew.
    mount.create("one more");
    assert_eq!(mount.list(&mount.root(), false).len(), 1001);
    mount
        .filesystem
        .remove(&mount.call(), &mount.root(), b"file0500")
        .unwrap();
    assert!(
        !mount
            .list(&mount.root(), true)
            .contains(&"file0500".to_owned())
    );
}

#[test]
fn what_is_open_stays_when_its_name_goes() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let id = mount.create("file");
    let opened = mount.open(&id);
    let second = mount.open(&id);
    let bytes = pattern(100_000, 1);
    mount.write(&id, 0, &bytes).unwrap();
    mount
        .filesystem
        .remove(&mount.call(), &mount.root(), b"file")
        .unwrap();
    assert_eq!(mount.lookup("file"), Err(Error::NotFound));
    let hidden = mount.list(&mount.root(), false);
    assert!(
        hidden.len() == 1 && hidden[0].starts_with(".nfs"),
        "{hidden:?}"
    );
    mount.write(&id, 100_000, b"more").unwrap();
    mount.close(&id).unwrap();
    drop(opened);
    assert!(mount.read(&id).unwrap() == [&bytes[..], b"more"].concat());
    assert_eq!(mount.list(&mount.root(), false).len(), 1);
    drop(second);
    assert!(mount.list(&mount.root(), false).is_empty());
    assert_eq!(
        mount.filesystem.attributes(&mount.call(), &id),
        Err(Error::Stale)
    );
    mount.filesystem.finish(Finish::Sync).unwrap();
}

#[test]
fn what_is_open_stays_when_another_takes_its_name() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let (old, new) = (mount.create("file"), mount.create("file.new"));
    mount.write(&old, 0, b"old").unwrap();
    mount.write(&new, 0, b"new").unwrap();
    let opened = mount.open(&old);
    let (call, root) = (mount.call(), mount.root());
    mount
        .filesystem
        .rename(
            &call,
            (&root, b"file.new"),
            (&root, b"file"),
            RenameMode::Replace,
        )
        .unwrap();
    assert_eq!(mount.lookup("file"), Ok(new));
    assert_eq!(mount.lookup("file.new"), Err(Error::NotFound));
    assert_eq!(mount.read(&old).unwrap(), b"old");
    assert_eq!(mount.read(&new).unwrap(), b"new");
    drop(opened);
    assert_eq!(mount.list(&root, false), ["file"]);
}

/// Refuses all renames after the first, and ends an opening at the third.
#[derive(Default)]
struct RefusesRenames {
    count: AtomicUsize,
    opened: Mutex<Option<Opened>>,
}

impl Hook for RefusesRenames {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        if event.operation != "rename" {
            return Ok(());
        }
        let before = self.count.fetch_add(1, Ordering::AcqRel);
        if before == 2 {
            drop(self.opened.lock().unwrap().take());
        }
        Error::NoSpace.when(before > 0)
    }
}

#[test]
fn what_is_closed_while_its_name_cannot_come_back_leaves_nothing() {
    let (layer, hook) = Layer::new(ram(), RefusesRenames::default());
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let old = mount.create("file");
    mount.create("file.new");
    *hook.opened.lock().unwrap() = Some(mount.open(&old));
    let (call, root) = (mount.call(), mount.root());
    let (from, to): (&[u8], &[u8]) = (b"file.new", b"file");
    let renamed = mount
        .filesystem
        .rename(&call, (&root, from), (&root, to), RenameMode::Replace);
    assert_eq!(renamed, Err(Error::NoSpace));
    assert_eq!(hook.count.load(Ordering::Acquire), 3);
    assert_eq!(mount.list(&root, false), ["file.new"]);
}

#[test]
fn a_removed_file_costs_no_writes() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let id = mount.create("temporary");
    mount.write(&id, 0, &[7; 10_000]).unwrap();
    mount
        .filesystem
        .remove(&mount.call(), &mount.root(), b"temporary")
        .unwrap();
    mount.filesystem.finish(Finish::Sync).unwrap();
    assert_eq!(mount.calls(Procedure::Write), 0);
    // Nor is it an error that what was written of it cannot be committed.
    let id = mount.create("temporary");
    mount.write(&id, 0, &[7; 10_000]).unwrap();
    mount.attributes(&id);
    mount
        .filesystem
        .remove(&mount.call(), &mount.root(), b"temporary")
        .unwrap();
    mount.filesystem.finish(Finish::Sync).unwrap();
}

#[test]
fn every_kind_of_object_can_be_made() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let (filesystem, call, root) = (&mount.filesystem, mount.call(), mount.root());
    let attributes = SetAttributes {
        mode: Some(0o751),
        uid: Some(5),
        ..Default::default()
    };
    let directory = filesystem
        .make_directory(&call, &root, b"d", &attributes)
        .unwrap()
        .entry;
    assert_eq!(
        (directory.attributes.mode, directory.attributes.uid),
        (0o751, 5)
    );
    let link = filesystem.make_symlink(&call, &root, b"l", b"to/where", &SetAttributes::default());
    let link = link.unwrap().entry;
    assert_eq!(
        filesystem.read_link(&call, &link.id).unwrap().0,
        b"to/where"
    );
    let fifo = filesystem.make_node(&call, &directory.id, b"p", NodeKind::Fifo, &attributes);
    assert_eq!(fifo.unwrap().entry.attributes.file_type, FileType::Fifo);
    let file = mount.create("f");
    let (linked, _) = filesystem.link(&call, &file, &directory.id, b"f2").unwrap();
    assert_eq!(linked.link_count, 2);
    assert_eq!(mount.attributes(&file).link_count, 2);
    let again = filesystem.make_directory(&call, &root, b"d", &attributes);
    assert_eq!(again.err(), Some(Error::Exists));
    let mode = CreateMode::Guarded(attributes);
    assert_eq!(
        filesystem.create(&call, &root, b"f", &mode).err(),
        Some(Error::Exists)
    );
    assert_eq!(
        filesystem.remove_directory(&call, &root, b"d").err(),
        Some(Error::NotEmpty)
    );
    for name in [&b"p"[..], b"f2"] {
        filesystem.remove(&call, &directory.id, name).unwrap();
    }
    filesystem.remove_directory(&call, &root, b"d").unwrap();
    assert_eq!(mount.attributes(&file).link_count, 1);
    assert_eq!(mount.list(&root, true).len(), 2);
    assert!(filesystem.statistics(&call).unwrap().bytes_total > 0);
}

#[test]
fn an_existing_file_is_cut_off_when_it_is_created_again() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let id = mount.create("file");
    mount.write(&id, 0, &[1; 70_000]).unwrap();
    let mode = CreateMode::Unchecked(SetAttributes {
        size: Some(0),
        ..Default::default()
    });
    let created = mount
        .filesystem
        .create(&mount.call(), &mount.root(), b"file", &mode)
        .unwrap();
    assert_eq!((created.entry.id, created.entry.attributes.size), (id, 0));
    assert!(mount.read(&id).unwrap().is_empty());
    mount.write(&id, 0, b"new").unwrap();
    mount.close(&id).unwrap();
    assert_eq!(Mount::new(&server, "").read(&id).unwrap(), b"new");
}

#[test]
fn rights_are_those_of_who_calls() {
    let (server, _) = server();
    let mount = Mount::new(&server, LASTING);
    let id = mount.create("private");
    mount.write(&id, 0, b"secret").unwrap();
    let request = SetAttributes {
        mode: Some(0o600),
        ..Default::default()
    };
    mount
        .filesystem
        .set_attributes(&mount.call(), &id, &request, None)
        .unwrap();
    assert_eq!(mount.read(&id).unwrap(), b"secret");
    let stranger = Credentials::new(1000, 1000, &[]);
    let call = Call::new(&stranger, true);
    let read = mount.filesystem.read(&call, &id, 0, 10);
    assert_eq!(read.err(), Some(Error::AccessDenied));
    let (granted, _) = mount.filesystem.access(&call, &id, Access::ALL).unwrap();
    assert_eq!(granted, Access(0));
    mount.attributes(&id);
    // What is in memory is told without asking, and the rest not at all.
    let hasty = Call::new(&mount.credentials, false);
    assert!(mount.filesystem.attributes(&hasty, &id).is_ok());
    assert!(mount.filesystem.read(&hasty, &id, 0, 10).is_ok());
    let elsewhere = mount.filesystem.lookup(&hasty, &mount.root(), b"elsewhere");
    assert_eq!(elsewhere.err(), Some(Error::WouldBlock));
}

/// Answers the listing of this number late.
#[derive(Default)]
struct ListsLate {
    gate: Gate,
    listed: AtomicUsize,
    late: AtomicUsize,
}

impl Hook for ListsLate {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.may_block {
            Ok(())
        } else {
            Err(Error::WouldBlock)
        }
    }

    fn listed(&self) {
        let number = 1 + self.listed.fetch_add(1, Ordering::AcqRel);
        if number == self.late.load(Ordering::Acquire) {
            self.gate.pass();
        }
    }
}

#[test]
fn a_listing_that_was_overtaken_is_not_shown_again() {
    for count in [0, 5000] {
        let memory = ram();
        for number in 0..count {
            make_file(&*memory, format!("file{number:04}").as_bytes(), b"");
        }
        let (layer, hook) = Layer::new(memory, ListsLate::default());
        let server = serve(vec![export("/", layer)]);
        let list = |mount: &Mount| mount.list(&mount.root(), false).len();
        assert_eq!(list(&Mount::new(&server, "")), count);
        let pages = hook.listed.load(Ordering::Acquire);
        assert_eq!(pages > 1, count > 0);
        // The last one of the next listing.
        hook.late.store(2 * pages, Ordering::Release);
        let mount = Mount::new(&server, "");
        std::thread::scope(|scope| {
            let listing = scope.spawn(|| list(&mount));
            hook.gate.wait_for(1);
            mount.create("new");
            if count > 0 {
                assert_eq!(list(&mount), count + 1, "beside the one that is late");
            }
            hook.gate.open();
            // One that has begun before may show it, or not.
            assert!((count..=count + 1).contains(&listing.join().unwrap()));
        });
        assert_eq!(list(&mount), count + 1);
    }
}
