//! A file system as the commands use it: paths, sorted listings, streams of bytes.
//!
//! Symbolic links are followed inside the source only: an absolute target starts at its root and
//! `..` at the root stays there.

mod helpers;
pub mod holes;
pub mod pipeline;
mod reader;
pub mod walk;

use std::io::IoSlice;
use std::sync::Arc;

use pagewell_fs::{
    Attributes, Call, Credentials, Entry, Error, FileId, FileSystem, FileType, LocalFiles, Payload,
    Result,
};
use rustix::io::Errno;

pub use reader::{Piece, Reader};

/// In one path, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Of one read; the server's largest preferred size, so that both fronts make the same requests.
pub const READ_BYTES: u32 = 1 << 20;

/// Of one directory, or of those above each other in a walk, some 1 GiB: a server could list
/// without end.
const NAMES_MAX: usize = 4 << 20;

/// A file system and its user.
#[derive(Clone)]
pub struct Tree {
    /// The file system.
    pub filesystem: Arc<dyn FileSystem>,
    credentials: Credentials,
}

/// The names of a directory.
pub struct Names {
    /// Valid ones, in byte order.
    pub listed: Vec<Listed>,
    /// How many others are left out.
    pub unusable: u64,
}

/// Takes the next bytes of a stream.
pub type Take<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// One name of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its bytes.
    pub name: Vec<u8>,
    /// The object, or why it was not examined.
    pub entry: Result<Entry>,
}

/// A directory and a name in it, which may not exist.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The directory.
    pub directory: FileId,
    /// The name; empty for the root, `.` and `..`.
    pub name: Vec<u8>,
    /// Its object.
    pub entry: Option<Entry>,
}

impl Tree {
    /// For the user of this process.
    pub fn new(filesystem: Arc<dyn FileSystem>) -> Self {
        let groups: Vec<u32> = rustix::process::getgroups()
            .unwrap_or_default()
            .iter()
            .map(|gid| gid.as_raw())
            .collect();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Self {
            filesystem,
            credentials: Credentials::new(uid, gid, &groups),
        }
    }

    /// The file system, if it is a directory of this machine.
    pub fn local(&self) -> Option<&dyn LocalFiles> {
        self.filesystem.as_local()
    }

    /// Whether it is a directory of this machine.
    pub fn is_local(&self) -> bool {
        self.local().is_some()
    }

    /// A call of this user, on a thread that may wait.
    pub fn call(&self) -> Call<'_> {
        Call::new(&self.credentials, true)
    }

    /// The root.
    pub fn root(&self) -> Result<Entry> {
        let id = self.filesystem.root();
        let attributes = self.filesystem.attributes(&self.call(), &id)?;
        Ok(Entry { id, attributes })
    }

    /// The target of a symbolic link.
    pub fn link_target(&self, id: &FileId) -> Result<Vec<u8>> {
        Ok(self.filesystem.read_link(&self.call(), id)?.0)
    }

    /// Finds `path`, from the root. Follows links on the way, and in the last name with `follow`. A
    /// missing last name gives a spot without an entry; any other is an error.
    pub fn resolve(&self, path: &[u8], follow: bool) -> Result<Spot> {
        self.resolve_below(self.root()?, path, follow)
    }

    /// The same from a directory, as if that were the root.
    pub fn resolve_below(&self, root: Entry, path: &[u8], follow: bool) -> Result<Spot> {
        let follow = follow || path.ends_with(b"/");
        // From the root to the current place.
        let mut below: Vec<Entry> = Vec::new();
        let (mut todo, mut links_followed) = (components(path), 0);
        while let Some(name) = todo.pop() {
            if name == b".." {
                below.pop();
                continue;
            }
            let here = *below.last().unwrap_or(&root);
            let is_last = todo.is_empty();
            let entry = match self.filesystem.lookup(&self.call(), &here.id, &name) {
                Err(Error::NotFound) if is_last => None,
                found => Some(found?),
            };
            match entry.map(|entry| (entry, entry.attributes.file_type)) {
                Some((link, FileType::Symlink)) if !is_last || follow => {
                    links_followed += 1;
                    if links_followed > LINKS_MAX {
                        return Err(Error::Io("too many symbolic links".to_owned()));
                    }
                    let target = self.link_target(&link.id)?;
                    match target.first() {
                        None => return Err(Error::NotFound),
                        Some(b'/') => below.clear(),
                        Some(_) => {}
                    }
                    todo.extend(components(&target));
                }
                Some((directory, FileType::Directory)) if !is_last => below.push(directory),
                Some(_) if !is_last => return Err(Error::NotDirectory),
                _ => {
                    return Ok(Spot {
                        directory: here.id,
                        name,
                        entry,
                    });
                }
            }
        }
        let here = below.pop().unwrap_or(root);
        Ok(Spot {
            directory: here.id,
            name: Vec::new(),
            entry: Some(here),
        })
    }

    /// All names of a directory, in byte order; `.` and `..` with `dots`.
    pub fn list(&self, directory: &FileId, dots: bool) -> Result<Names> {
        self.list_up_to(directory, dots, NAMES_MAX)
    }

    /// The same; more names are an error.
    pub fn list_up_to(&self, directory: &FileId, dots: bool, names_max: usize) -> Result<Names> {
        let mut found: Vec<(Vec<u8>, Option<Entry>)> = Vec::new();
        let (mut cookie, mut unusable) = (0, 0);
        let mut are_too_many = false;
        loop {
            let before = found.len();
            let mut names_seen = 0u64;
            let page = self.filesystem.read_directory(
                &self.call(),
                directory,
                cookie,
                true,
                &mut |entry| {
                    if found.len() >= names_max {
                        are_too_many = true;
                        return false;
                    }
                    names_seen += 1;
                    cookie = entry.cookie;
                    if dots || (entry.name != b"." && entry.name != b"..") {
                        found.push((entry.name.to_vec(), entry.entry));
                    }
                    true
                },
            )?;
            unusable += page.unusable;
            if page.end {
                break;
            }
            if are_too_many {
                let reason = format!("the directory has more than {names_max} names");
                return Err(Error::Io(reason));
            }
            if names_seen == 0 {
                let reason = format!("the listing stops after {before} names");
                return Err(Error::Io(reason));
            }
        }
        found.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let examine = |(name, entry): (Vec<u8>, Option<Entry>)| Listed {
            entry: entry.map_or_else(
                || self.filesystem.lookup(&self.call(), directory, &name),
                Ok,
            ),
            name,
        };
        // A name may move meanwhile, and a server may lie.
        found.dedup_by(|later, first| later.0 == first.0);
        Ok(Names {
            listed: found.into_iter().map(examine).collect(),
            unusable,
        })
    }
}

/// As many as one pwritev(2) takes well.
const SLICES_MAX: usize = 64;

/// Gives the bytes of a payload to `take`, with their offsets; those of a file through `buffer`.
/// `failed` converts an error of reading.
pub fn pieces<E>(
    payload: &Payload,
    buffer: &mut Vec<u8>,
    failed: impl Fn(Error) -> E,
    mut take: impl FnMut(u64, &[&[u8]]) -> Result<(), E>,
) -> Result<u64, E> {
    match payload {
        Payload::File { .. } => {
            if buffer.len() < payload.len() {
                buffer.resize(payload.len(), 0);
            }
            let bytes = buffer.get_mut(..payload.len()).unwrap_or_default();
            let got = payload.copy_to(bytes, true).map_err(failed)?;
            take(0, &[bytes.get(..got).unwrap_or_default()])?;
            Ok(got as u64)
        }
        Payload::Pages(pages) => {
            let mut got = 0;
            for pages in pages.chunks(SLICES_MAX) {
                let slices: Vec<&[u8]> = pages.iter().map(|page| &**page).collect();
                take(got, &slices)?;
                got += slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
            }
            Ok(got)
        }
        Payload::Bytes(bytes) => {
            take(0, &[bytes])?;
            Ok(bytes.len() as u64)
        }
    }
}

/// Writes all slices with few calls of `write`, which gets the bytes written so far, and returns
/// how many more it wrote.
pub fn write_slices<'a>(
    slices: impl IntoIterator<Item = &'a [u8]>,
    mut write: impl FnMut(u64, &[IoSlice<'_>]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let slices = slices.into_iter().filter(|slice| !slice.is_empty());
    let mut slices: Vec<IoSlice<'_>> = slices.map(IoSlice::new).collect();
    let (mut written, mut rest) = (0, &mut slices[..]);
    while !rest.is_empty() {
        match write(written, &rest[..rest.len().min(SLICES_MAX)]) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => {
                written += count as u64;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The names of a path, last first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .rev()
        .map(<[u8]>::to_vec)
        .collect()
}

/// Type and permissions, as `ls -l` shows them.
pub fn mode_text(attributes: &Attributes) -> String {
    let mode = attributes.mode;
    let kind = match attributes.file_type {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Symlink => 'l',
        FileType::Socket => 's',
        FileType::Fifo => 'p',
    };
    let mut text = String::from(kind);
    for (shift, special_bit, special) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special_bit != 0) {
            (true, true) => special,
            (false, true) => special.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// The type in words.
pub fn type_text(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::BlockDevice => "block device",
        FileType::CharacterDevice => "character device",
        FileType::Symlink => "symbolic link",
        FileType::Socket => "socket",
        FileType::Fifo => "named pipe",
    }
}
