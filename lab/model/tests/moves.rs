//! Moving names, call by call as the file system beneath does it: each random call is made in a
//! plain directory, through the kind `dir` and in memory, and all must answer the same and hold the
//! same names afterwards.

#![allow(clippy::unwrap_used)] // a test: to panic is to fail

use pagewell_fs::{
    Call, CreateMode, Credentials, Entry, Error, FileId, FileSystem, RenameMode, Result,
    SetAttributes, Stability,
};
use pagewell_source_dir::{Directory, Options};
use pagewell_source_ram::RamFileSystem;
use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::Path;

/// Where a name is, as a program writes it.
type Place = &'static str;

/// So few that calls meet.
const PLACES: [Place; 9] = ["a", "b", "c", "a/a", "a/b", "b/a", "b/b", "a/b/a", "b/a/b"];

#[derive(Clone, Copy, Debug)]
enum Act {
    File(Place, u8),
    Directory(Place),
    Remove(Place),
    Move(Place, Place, RenameMode),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let place = || prop::sample::select(&PLACES[..]);
    let how = prop::sample::select(vec![
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
    ]);
    let act = prop_oneof![
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Act::File(at, byte)),
        3 => place().prop_map(Act::Directory),
        1 => place().prop_map(Act::Remove),
        5 => (place(), place(), how).prop_map(|(from, to, how)| Act::Move(from, to, how)),
    ];
    prop::collection::vec(act, 1..40)
}

fn plain(top: &Path, act: Act) -> Result<(), Errno> {
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap();
    match act {
        Act::File(at, byte) => {
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create_new(true).open(top.join(at));
            std::io::Write::write_all(&mut file.map_err(errno)?, &[byte]).map_err(errno)
        }
        Act::Directory(at) => std::fs::create_dir(top.join(at)).map_err(errno),
        Act::Remove(at) => match std::fs::remove_file(top.join(at)).map_err(errno) {
            Err(Errno::ISDIR | Errno::PERM) => std::fs::remove_dir(top.join(at)).map_err(errno),
            done => done,
        },
        Act::Move(from, to, how) => {
            let flags = match how {
                RenameMode::Replace => RenameFlags::empty(),
                RenameMode::NoReplace => RenameFlags::NOREPLACE,
                RenameMode::Exchange => RenameFlags::EXCHANGE,
            };
            rustix::fs::renameat_with(CWD, top.join(from), CWD, top.join(to), flags)
        }
    }
}

fn split(at: Place) -> (&'static str, &'static [u8]) {
    let (directory, name) = at.rsplit_once('/').unwrap_or(("", at));
    (directory, name.as_bytes())
}

/// The directory at a path.
fn walk(files: &dyn FileSystem, call: &Call<'_>, path: &str) -> Result<FileId> {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.into_iter().try_fold(files.root(), |id, name| {
        let entry = files.lookup(call, &id, name.as_bytes())?;
        match entry.attributes.file_type.is_directory() {
            true => Ok(entry.id),
            false => Err(Error::NotDirectory),
        }
    })
}

fn served(files: &dyn FileSystem, call: &Call<'_>, act: Act) -> Result<()> {
    let of = |at| -> Result<(FileId, &'static [u8])> {
        let (directory, name) = split(at);
        Ok((walk(files, call, directory)?, name))
    };
    match act {
        Act::File(at, byte) => {
            let (directory, name) = of(at)?;
            let mode = CreateMode::Guarded(SetAttributes::default());
            let made = files.create(call, &directory, name, &mode)?;
            let id = made.entry.id;
            files
                .write(call, &id, 0, &[byte], Stability::Unstable)
                .map(drop)
        }
        Act::Directory(at) => {
            let (directory, name) = of(at)?;
            let attributes = SetAttributes::default();
            files
                .make_directory(call, &directory, name, &attributes)
                .map(drop)
        }
        Act::Remove(at) => {
            let (directory, name) = of(at)?;
            match files.remove(call, &directory, name) {
                Err(Error::IsDirectory) => files.remove_directory(call, &directory, name).map(drop),
                done => done.map(drop),
            }
        }
        Act::Move(from, to, how) => {
            let ((from, old), (to, new)) = (of(from)?, of(to)?);
            files.rename(call, (&from, old), (&to, new), how).map(drop)
        }
    }
}

/// What every path is: nothing for a directory, the bytes of a file.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

fn tree_of_plain(top: &Path, below: &str, tree: &mut Tree) {
    for entry in std::fs::read_dir(top.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{below}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            tree_of_plain(top, &format!("{path}/"), tree);
            tree.insert(path, None);
        } else {
            tree.insert(path, Some(std::fs::read(entry.path()).unwrap()));
        }
    }
}

/// Also checks that each directory knows its parent, and counts its sub-directories.
fn tree_of_served(files: &dyn FileSystem, call: &Call<'_>, at: &FileId, below: &str) -> Tree {
    let mut tree = Tree::new();
    let mut names = Vec::new();
    let page = files.read_directory(call, at, 0, false, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    });
    let page = page.unwrap();
    assert!(page.end);
    names.retain(|name| name != b"." && name != b"..");
    let mut directories = 0;
    for name in names {
        let Entry { id, attributes } = files.lookup(call, at, &name).unwrap();
        let path = format!("{below}{}", String::from_utf8(name).unwrap());
        if attributes.file_type.is_directory() {
            directories += 1;
            assert_eq!(files.lookup(call, &id, b"..").unwrap().id, *at, "{path}");
            tree.extend(tree_of_served(files, call, &id, &format!("{path}/")));
            tree.insert(path, None);
        } else {
            let reply = files.read(call, &id, 0, 10).unwrap();
            let mut bytes = vec![0; reply.payload.len()];
            reply.payload.copy_to(&mut bytes, true).unwrap();
            tree.insert(path, Some(bytes));
        }
    }
    if page.attributes.link_count > 1 {
        assert_eq!(page.attributes.link_count, 2 + directories, "{below}");
    }
    tree
}

fn compare(acts: &[Act], files: &dyn FileSystem) {
    let plain_top = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = Credentials::root();
    let call = Call::new(&root, true);
    for (number, act) in acts.iter().enumerate() {
        let expected = plain(plain_top.path(), *act);
        let answered = served(files, &call, *act).map_err(|error| error.to_errno());
        assert_eq!(answered, expected, "call {number}: {act:?}");
    }
    let mut expected = Tree::new();
    tree_of_plain(plain_top.path(), "", &mut expected);
    let found = tree_of_served(files, &call, &files.root(), "");
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(96)
    })]

    #[test]
    fn memory_moves_names_as_the_kernel_does(acts in acts()) {
        compare(&acts, &RamFileSystem::new(16 << 20).unwrap());
    }

    #[test]
    fn a_directory_moves_names_as_the_one_beneath(acts in acts(), force_trails: bool) {
        let top = tempfile::tempdir_in("/var/tmp").unwrap();
        let options = Options { force_trails, metadata_sync: false, ..Options::default() };
        compare(&acts, &Directory::open(top.path(), options).unwrap());
        // What a test does by itself it does as it began.
        pagewell_fs::identity::act_for_server();
    }
}
