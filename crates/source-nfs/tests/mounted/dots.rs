//! Servers whose listings lack "." and "..", or have them late.

use pagewell_fs::{DirectoryEntry, FileId, FileSystem, Result, SetAttributes};

use super::Mount;
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer, make_file};

/// Enough for several pages of a server.
const FILES: usize = 4000;

/// Hides "." and "..", and shows the file of this name, if there is one, as ".".
struct Dotless(&'static [u8]);

impl Hook for Dotless {
    fn before(&self, _: &Event<'_>) -> Result<()> {
        Ok(())
    }

    fn entry<'e>(&self, inner: &DirectoryEntry<'e>) -> Option<DirectoryEntry<'e>> {
        match inner.name {
            b"." | b".." => None,
            late if late == self.0 => Some(DirectoryEntry {
                name: b".",
                ..*inner
            }),
            _ => Some(*inner),
        }
    }
}

/// The names of a directory and their numbers, asked for by so many at a time.
fn listed(mount: &Mount, directory: &FileId, at_a_time: usize) -> Vec<(Vec<u8>, u64)> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let (after, mut left) = (cookie, at_a_time);
        let mut visit = |entry: &DirectoryEntry<'_>| {
            if left == 0 {
                return false;
            }
            left -= 1;
            assert!(entry.entry.is_some());
            names.push((entry.name.to_vec(), entry.file_id));
            cookie = entry.cookie;
            true
        };
        let (filesystem, call) = (&mount.filesystem, mount.call());
        let page = filesystem.read_directory(&call, directory, after, true, &mut visit);
        if page.unwrap().end {
            return names;
        }
    }
}

#[test]
fn dots_come_first_and_once_however_a_server_lists_them() {
    for late in ["", "file3990"] {
        let memory = ram();
        for number in 0..FILES {
            make_file(&*memory, format!("file{number}").as_bytes(), b"");
        }
        let (layer, _) = Layer::new(memory, Dotless(late.as_bytes()));
        let server = serve(vec![export("/", layer)]);
        let mount = Mount::new(&server, "");
        let root = mount.root();
        let number = mount.attributes(&root).file_id;
        for at_a_time in [1, 2, 700, FILES + 10] {
            let mount = Mount::new(&server, "");
            let mut names = listed(&mount, &root, at_a_time);
            let dots = [(b".".to_vec(), number), (b"..".to_vec(), number)];
            assert_eq!(names[..2], dots, "{at_a_time} at a time");
            names.sort();
            names.dedup();
            assert_eq!(names.len(), FILES + 2 - usize::from(!late.is_empty()));
        }
    }
}

#[test]
fn the_parent_is_listed_that_a_server_does_not_list() {
    let (layer, _) = Layer::new(ram(), Dotless(b""));
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let (call, root) = (mount.call(), mount.root());
    let attributes = SetAttributes::default();
    let made = mount
        .filesystem
        .make_directory(&call, &root, b"below", &attributes);
    let below = made.unwrap().entry.id;
    let numbers = [below, mount.root()].map(|id| mount.attributes(&id).file_id);
    let dots = [(b".".to_vec(), numbers[0]), (b"..".to_vec(), numbers[1])];
    assert_eq!(listed(&mount, &below, 1), dots);
}
