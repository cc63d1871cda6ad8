//! Walks a file system through the trait and checks what must hold for every one on the way: each
//! listed name is found, by name and by identifier, with the same attributes; no cookie comes
//! twice; a file has as many bytes as its attributes say.

#![allow(clippy::unwrap_used)] // a failed check is a failed test
#![allow(clippy::missing_panics_doc)]

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use pagewell_fs::{Attributes, Call, Credentials, Error, FileId, FileSystem, FileType, Result};

/// Root, and willing to wait.
pub fn call(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, true)
}

/// One object of a walk.
pub struct Found {
    /// Its identifier.
    pub id: FileId,
    /// Its attributes.
    pub attributes: Attributes,
    /// Data of a regular file or target of a link.
    pub content: Result<Vec<u8>>,
}

/// Path to object; the root is the empty path.
pub type Manifest = BTreeMap<Vec<u8>, Found>;

/// How far a walk goes.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Objects in all.
    pub objects_max: usize,
    /// Directories inside each other.
    pub depth_max: usize,
    /// Longer files are not read.
    pub file_bytes_max: u64,
}

/// Everything.
pub const WHOLE: Bounds = Bounds {
    objects_max: usize::MAX,
    depth_max: usize::MAX,
    file_bytes_max: u64::MAX,
};

/// Name, inode number and, when it could be examined, the object.
pub type Listed = (Vec<u8>, u64, Option<pagewell_fs::Entry>);

/// The name and the entry of everything in a directory, listed in pages of `page` entries.
pub fn list(fs: &dyn FileSystem, directory: &FileId, page: usize) -> Result<Vec<Listed>> {
    let credentials = Credentials::root();
    let mut all = Vec::new();
    let mut cookie = 0;
    let mut cookies = HashSet::new();
    loop {
        let mut taken = 0;
        let reply =
            fs.read_directory(&call(&credentials), directory, cookie, true, &mut |entry| {
                if taken == page {
                    return false;
                }
                taken += 1;
                assert_ne!(entry.cookie, 0);
                assert!(cookies.insert(entry.cookie), "cookie given twice");
                cookie = entry.cookie;
                if let Some(found) = entry.entry {
                    assert_eq!(found.attributes.file_id, entry.file_id);
                }
                all.push((entry.name.to_vec(), entry.file_id, entry.entry));
                true
            })?;
        if reply.end {
            return Ok(all);
        }
        assert!(taken > 0, "no progress");
    }
}

/// All of a file, in reads of odd sizes.
pub fn content(fs: &dyn FileSystem, id: &FileId, size: u64) -> Result<Vec<u8>> {
    let credentials = Credentials::root();
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        let reply = fs.read(&call(&credentials), id, offset, 99_991)?;
        let start = bytes.len();
        bytes.resize(start + reply.payload.len(), 0);
        let copied = reply.payload.copy_to(&mut bytes[start..], true)?;
        assert_eq!(copied, reply.payload.len());
        if reply.end_of_file {
            assert_eq!(bytes.len() as u64, size);
            return Ok(bytes);
        }
        assert!(copied > 0, "no progress");
    }
}

/// Walks the tree from the root.
pub fn walk(fs: &dyn FileSystem, bounds: Bounds) -> Manifest {
    let credentials = Credentials::root();
    let mut found = Manifest::new();
    let root = fs.root();
    let attributes = fs.attributes(&call(&credentials), &root).unwrap();
    found.insert(
        Vec::new(),
        Found {
            id: root,
            attributes,
            content: Ok(Vec::new()),
        },
    );
    let mut waiting = vec![(Vec::new(), root, 0usize)];
    while let Some((path, directory, depth)) = waiting.pop() {
        if depth >= bounds.depth_max {
            continue;
        }
        let Ok(entries) = list(fs, &directory, 1000) else {
            continue;
        };
        // A hint changes nothing that is read, whatever it is about.
        let ids = entries.iter().flat_map(|(_, _, entry)| entry);
        let ids: Vec<FileId> = ids.map(|entry| entry.id).collect();
        fs.read_ahead(&ids);
        for (name, _, entry) in entries {
            if name == b"." || name == b".." {
                continue;
            }
            if found.len() >= bounds.objects_max {
                return found;
            }
            let looked_up = fs.lookup(&call(&credentials), &directory, &name);
            let Some(entry) = entry else {
                assert!(looked_up.is_err(), "listing failed, lookup did not");
                continue;
            };
            assert_eq!(looked_up, Ok(entry), "{}", String::from_utf8_lossy(&name));
            let by_id = fs.attributes(&call(&credentials), &entry.id);
            assert_eq!(by_id, Ok(entry.attributes));
            let path = if path.is_empty() {
                name
            } else {
                [&path[..], b"/", &name].concat()
            };
            let content = examine(fs, &entry, bounds);
            if entry.attributes.file_type == FileType::Directory {
                waiting.push((path.clone(), entry.id, depth + 1));
            }
            let object = Found {
                id: entry.id,
                attributes: entry.attributes,
                content,
            };
            assert!(found.insert(path, object).is_none(), "name listed twice");
        }
    }
    found
}

fn examine(fs: &dyn FileSystem, entry: &pagewell_fs::Entry, bounds: Bounds) -> Result<Vec<u8>> {
    let credentials = Credentials::root();
    match entry.attributes.file_type {
        FileType::Regular if entry.attributes.size <= bounds.file_bytes_max => {
            content(fs, &entry.id, entry.attributes.size)
        }
        FileType::Symlink => fs
            .read_link(&call(&credentials), &entry.id)
            .map(|(target, _)| target),
        FileType::Directory => {
            let parent = fs.lookup(&call(&credentials), &entry.id, b"..")?;
            assert_eq!(parent.attributes.file_type, FileType::Directory);
            Ok(Vec::new())
        }
        _ => Err(Error::Invalid),
    }
}

/// Checks that every directory's `..` is the directory that holds it.
pub fn check_parents(fs: &dyn FileSystem, manifest: &Manifest) {
    let credentials = Credentials::root();
    for (path, found) in manifest {
        if found.attributes.file_type != FileType::Directory {
            continue;
        }
        let cut = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let parent = fs.lookup(&call(&credentials), &found.id, b"..").unwrap();
        assert_eq!(parent.id, manifest[&path[..cut]].id, "{}", display(path));
    }
}

/// The tree below a local directory, in the same shape as [`walk`] gives: path, type, content.
pub fn local(directory: &Path) -> BTreeMap<Vec<u8>, (std::fs::Metadata, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_symlink() {
                path.read_link().unwrap().as_os_str().as_bytes().to_vec()
            } else if metadata.is_file() {
                std::fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            if metadata.is_dir() {
                waiting.push(path.clone());
            }
            let name = path.strip_prefix(directory).unwrap();
            found.insert(name.as_os_str().as_bytes().to_vec(), (metadata, content));
        }
    }
    found
}

/// Bytes for people.
pub fn display(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a tool; `None`, with a note, when it is not installed.
pub fn tool(name: &str, arguments: &[&std::ffi::OsStr]) -> Option<()> {
    let result = std::process::Command::new(name)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output();
    match result {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name} failed: {text}");
            Some(())
        }
        Err(error) => {
            pagewell_skip::skip(format_args!("{name}: {error}"));
            None
        }
    }
}
