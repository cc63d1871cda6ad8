//! What must be true of any tree at rest.

use std::collections::{BTreeMap, BTreeSet};

use pagewell_fs::{Call, Credentials, Entry, FileId, FileSystem};

fn as_root<T>(action: impl FnOnce(&Call<'_>) -> T) -> T {
    let credentials = Credentials::root();
    action(&Call::new(&credentials, true))
}

/// The names in a directory but `.` and `..`, and the file id of `..`.
fn names(filesystem: &dyn FileSystem, directory: &FileId) -> (Vec<(Vec<u8>, Entry)>, u64) {
    let mut found = Vec::new();
    let mut parent = 0;
    let page = as_root(|call| {
        filesystem.read_directory(call, directory, 0, true, &mut |entry| {
            match entry.name {
                b"." => {}
                b".." => parent = entry.file_id,
                name => found.push((name.to_vec(), entry.entry.expect("attributes"))),
            }
            true
        })
    });
    assert!(page.unwrap().end);
    (found, parent)
}

/// Walks the tree: listings and lookups agree, `..` leads back, link counts are the numbers of
/// names. Returns the identifiers of all objects.
pub(crate) fn check(filesystem: &dyn FileSystem) -> BTreeSet<FileId> {
    let root = filesystem.root();
    let mut directories = vec![root];
    let mut seen: BTreeSet<FileId> = BTreeSet::from([root]);
    let mut links: BTreeMap<FileId, u32> = BTreeMap::new();
    while let Some(directory) = directories.pop() {
        let attributes = as_root(|call| filesystem.attributes(call, &directory)).unwrap();
        let (entries, parent) = names(filesystem, &directory);
        let mut subdirectories = 0;
        for (name, entry) in &entries {
            let found = as_root(|call| filesystem.lookup(call, &directory, name)).unwrap();
            assert_eq!(found.id, entry.id, "{name:?}");
            let of_id = as_root(|call| filesystem.attributes(call, &found.id)).unwrap();
            assert_eq!(of_id.file_id, found.attributes.file_id, "{name:?}");
            let first = seen.insert(found.id);
            if of_id.file_type.is_directory() {
                assert!(first, "{name:?} is a second name of a directory");
                subdirectories += 1;
                directories.push(found.id);
                let back = as_root(|call| filesystem.lookup(call, &found.id, b"..")).unwrap();
                assert_eq!(back.id, directory, "`..` of {name:?}");
            } else {
                *links.entry(found.id).or_default() += 1;
            }
        }
        assert_eq!(
            attributes.link_count,
            2 + subdirectories,
            "links of a directory"
        );
        let up = as_root(|call| filesystem.lookup(call, &directory, b"..")).unwrap();
        if directory != root {
            assert_eq!(up.attributes.file_id, parent, "listed `..`");
        }
    }
    for (id, names) in links {
        let attributes = as_root(|call| filesystem.attributes(call, &id)).unwrap();
        assert_eq!(attributes.link_count, names, "links of {id:?}");
    }
    seen
}

/// Empties the root directory.
pub(crate) fn remove_all(filesystem: &dyn FileSystem) {
    let root = filesystem.root();
    let mut path = vec![root];
    while let Some(directory) = path.last().copied() {
        let (entries, _) = names(filesystem, &directory);
        let inner = entries
            .iter()
            .find(|(_, entry)| entry.attributes.file_type.is_directory());
        for (name, entry) in &entries {
            if !entry.attributes.file_type.is_directory() {
                as_root(|call| filesystem.remove(call, &directory, name)).unwrap();
            }
        }
        match inner {
            Some((name, entry)) => {
                let removed = as_root(|call| filesystem.remove_directory(call, &directory, name));
                if removed.is_err() {
                    path.push(entry.id);
                }
            }
            None => drop(path.pop()),
        }
    }
}
