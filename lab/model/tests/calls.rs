//! System calls that NFS does not know, call by call as the file system beneath does them: random
//! sequences are made in a plain directory and through the kind `dir`, and on a tmpfs and in
//! memory. All must answer the same, and the files be the same after each call.

#![allow(clippy::unwrap_used)] // a test: to panic is to fail

use pagewell_fs::{
    Call, CreateMode, Credentials, Error, FileId, FileSystem, Presence, RenameMode, Result, Seek,
    SetAttributes, Space, Stability,
};
use pagewell_source_dir::{Directory, Options};
use pagewell_source_ram::RamFileSystem;
use proptest::prelude::*;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const FILES: [&str; 3] = ["a", "b", "c"];
const BYTES_MAX: u64 = 300_000;
/// Files, directories, links and devices have other rules.
const OBJECTS: [&str; 6] = ["a", "b", "c", "directory", "link", "pipe"];
const NAMES: [&CStr; 7] = [
    c"user.a",
    c"user.longer name",
    c"user.",
    c"trusted.a",
    c"security.a",
    c"unknown.a",
    c"none",
];

#[derive(Clone, Debug)]
enum Act {
    Write(usize, u64, usize),
    Resize(usize, u64),
    Seek(usize, u64, Seek),
    Allocate(usize, u64, u64, Space),
    Copy(usize, u64, usize, u64, u64),
    Exchange(usize, usize),
    ToNew(usize, usize),
    Set(usize, usize, usize, Presence),
    Get(usize, usize),
    List(usize),
    Remove(usize, usize),
}

/// What an act answers beside its error.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    /// In no order.
    Names(Vec<Vec<u8>>),
}

fn places() -> impl Strategy<Value = u64> {
    // Where blocks and pages begin, and anywhere.
    prop_oneof![
        (0..BYTES_MAX / 4096).prop_map(|block| block * 4096),
        (0..5u64).prop_map(|page| page * 65_536),
        0..BYTES_MAX,
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let file = || 0..FILES.len();
    let object = || 0..OBJECTS.len();
    let name = || 0..NAMES.len();
    let seek = prop::sample::select(vec![Seek::Data, Seek::Hole]);
    let space = prop::sample::select(vec![
        Space::Reserve,
        Space::ReserveOnly,
        Space::Punch,
        Space::Zero,
        Space::ZeroOnly,
    ]);
    let presence = vec![Presence::Any, Presence::Absent, Presence::Present];
    let presence = prop::sample::select(presence);
    let length = prop::sample::select(vec![0, 1, 100, 1000, 3000, 65_536, 65_537]);
    let act = prop_oneof![
        2 => (file(), places(), 1..100_000usize).prop_map(|(a, at, n)| Act::Write(a, at, n)),
        1 => (file(), places()).prop_map(|(a, size)| Act::Resize(a, size)),
        2 => (file(), places(), seek).prop_map(|(a, at, what)| Act::Seek(a, at, what)),
        4 => (file(), places(), places(), space)
            .prop_map(|(a, at, n, s)| Act::Allocate(a, at, n, s)),
        2 => (file(), places(), file(), places(), places())
            .prop_map(|(a, from, b, to, n)| Act::Copy(a, from, b, to, n)),
        1 => (file(), file()).prop_map(|(a, b)| Act::Exchange(a, b)),
        1 => (file(), file()).prop_map(|(a, b)| Act::ToNew(a, b)),
        4 => (object(), name(), length, presence).prop_map(|(o, a, n, p)| Act::Set(o, a, n, p)),
        2 => (object(), name()).prop_map(|(o, a)| Act::Get(o, a)),
        2 => object().prop_map(Act::List),
        2 => (object(), name()).prop_map(|(o, a)| Act::Remove(o, a)),
    ];
    prop::collection::vec(act, 1..40)
}

fn names_in(list: &[u8]) -> Answer {
    let names = list.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let mut names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    names.sort();
    Answer::Names(names)
}

/// A directory as the kernel has it.
struct Plain(PathBuf);

impl Plain {
    fn new(top: &Path) -> Self {
        for name in FILES {
            std::fs::write(top.join(name), b"").unwrap();
        }
        std::fs::create_dir(top.join("directory")).unwrap();
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        let mode = Mode::from_raw_mode(0o644);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, top.join("pipe"), fifo, mode, 0).unwrap();
        Self(top.to_owned())
    }

    fn open(&self, file: usize) -> OwnedFd {
        let path = self.0.join(FILES[file]);
        rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn act(&self, act: &Act) -> Result<Answer, Errno> {
        let top = rustix::fs::open(&self.0, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let path = |object: usize| self.0.join(OBJECTS[object]);
        let moved = |from: usize, to: usize, flags| {
            rustix::fs::renameat_with(&top, FILES[from], &top, FILES[to], flags)
        };
        match *act {
            Act::Write(file, at, length) => {
                let written = rustix::io::pwrite(self.open(file), &vec![7; length], at)?;
                return Ok(Answer::Number(written as u64));
            }
            Act::Resize(file, size) => rustix::fs::ftruncate(self.open(file), size)?,
            Act::Seek(file, at, wanted) => {
                let from = match wanted {
                    Seek::Data => SeekFrom::Data(at),
                    Seek::Hole => SeekFrom::Hole(at),
                };
                return rustix::fs::seek(self.open(file), from).map(Answer::Number);
            }
            Act::Allocate(file, at, length, space) => {
                let keep = FallocateFlags::KEEP_SIZE;
                let flags = match space {
                    Space::Reserve => FallocateFlags::empty(),
                    Space::ReserveOnly => keep,
                    Space::Punch => FallocateFlags::PUNCH_HOLE | keep,
                    Space::Zero => FallocateFlags::ZERO_RANGE,
                    Space::ZeroOnly => FallocateFlags::ZERO_RANGE | keep,
                };
                rustix::fs::fallocate(self.open(file), flags, at, length)?;
            }
            Act::Copy(from, mut at, to, mut to_at, length) => {
                let (source, target) = (self.open(from), self.open(to));
                let length = usize::try_from(length).unwrap();
                let (at, to_at) = (Some(&mut at), Some(&mut to_at));
                let copied = rustix::fs::copy_file_range(source, at, target, to_at, length)?;
                return Ok(Answer::Number(copied as u64));
            }
            Act::Exchange(a, b) => moved(a, b, RenameFlags::EXCHANGE)?,
            Act::ToNew(a, b) => moved(a, b, RenameFlags::NOREPLACE)?,
            Act::Set(object, name, length, presence) => {
                let flags = match presence {
                    Presence::Any => XattrFlags::empty(),
                    Presence::Absent => XattrFlags::CREATE,
                    Presence::Present => XattrFlags::REPLACE,
                };
                rustix::fs::lsetxattr(path(object), NAMES[name], &vec![1; length], flags)?;
            }
            Act::Get(object, name) => {
                let mut value = vec![0; 65_536];
                let length = rustix::fs::lgetxattr(path(object), NAMES[name], &mut value)?;
                return Ok(Answer::Bytes(value[..length].to_vec()));
            }
            Act::List(object) => {
                let mut list = vec![0; 65_536];
                let length = rustix::fs::llistxattr(path(object), &mut list)?;
                return Ok(names_in(&list[..length]));
            }
            Act::Remove(object, name) => rustix::fs::lremovexattr(path(object), NAMES[name])?,
        }
        Ok(Answer::Done)
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        FILES
            .map(|name| std::fs::read(self.0.join(name)).unwrap())
            .to_vec()
    }

    fn sizes(&self) -> Vec<u64> {
        let top = rustix::fs::open(&self.0, OFlags::PATH, Mode::empty()).unwrap();
        let size = |name| {
            rustix::fs::statat(&top, name, AtFlags::SYMLINK_NOFOLLOW)
                .unwrap()
                .st_size
        };
        FILES.map(|name| size(name).cast_unsigned()).to_vec()
    }
}

/// A source of Pagewell with the same objects.
struct Served<'a> {
    files: &'a dyn FileSystem,
    call: Call<'a>,
}

impl<'a> Served<'a> {
    fn new(files: &'a dyn FileSystem, credentials: &'a Credentials) -> Self {
        let call = Call::new(credentials, true);
        let attributes = SetAttributes {
            mode: Some(0o644),
            ..SetAttributes::default()
        };
        let mode = CreateMode::Guarded(attributes);
        let root = files.root();
        for name in FILES {
            files.create(&call, &root, name.as_bytes(), &mode).unwrap();
        }
        let plain = SetAttributes::default();
        files
            .make_directory(&call, &root, b"directory", &plain)
            .unwrap();
        files
            .make_symlink(&call, &root, b"link", b"a", &plain)
            .unwrap();
        let fifo = pagewell_fs::NodeKind::Fifo;
        files
            .make_node(&call, &root, b"pipe", fifo, &attributes)
            .unwrap();
        Self { files, call }
    }

    fn id(&self, name: &str) -> FileId {
        let root = self.files.root();
        self.files
            .lookup(&self.call, &root, name.as_bytes())
            .unwrap()
            .id
    }

    fn act(&self, act: &Act) -> Result<Answer> {
        let (files, call) = (self.files, &self.call);
        let extended = files.extended_attributes().ok_or(Error::NotSupported)?;
        let file = |file: usize| self.id(FILES[file]);
        let object = |object: usize| self.id(OBJECTS[object]);
        let moved = |from: usize, to: usize, how| {
            let root = files.root();
            let (from, to) = (FILES[from].as_bytes(), FILES[to].as_bytes());
            files
                .rename(call, (&root, from), (&root, to), how)
                .map(drop)
        };
        match *act {
            Act::Write(at_file, at, length) => {
                let (id, bytes) = (file(at_file), vec![7; length]);
                let written = files.write(call, &id, at, &bytes, Stability::Unstable)?;
                return Ok(Answer::Number(u64::from(written.count)));
            }
            Act::Resize(at_file, size) => {
                let wanted = SetAttributes {
                    size: Some(size),
                    ..SetAttributes::default()
                };
                files.set_attributes(call, &file(at_file), &wanted, None)?;
            }
            Act::Seek(at_file, at, wanted) => {
                return files
                    .seek(call, &file(at_file), at, wanted)
                    .map(Answer::Number);
            }
            Act::Allocate(at_file, at, length, space) => {
                files.allocate(call, &file(at_file), (at, length), space)?;
            }
            Act::Copy(from, at, to, to_at, length) => {
                let (from, to) = (file(from), file(to));
                let copied = files.copy(call, (&from, at), (&to, to_at), length)?;
                return Ok(Answer::Number(copied));
            }
            Act::Exchange(a, b) => moved(a, b, RenameMode::Exchange)?,
            Act::ToNew(a, b) => moved(a, b, RenameMode::NoReplace)?,
            Act::Set(at, name, length, presence) => {
                let value = vec![1; length];
                let (id, name) = (object(at), NAMES[name]);
                extended.set(call, &id, name, &value, presence)?;
            }
            Act::Get(at, name) => {
                let value = extended.get(call, &object(at), NAMES[name])?;
                return Ok(Answer::Bytes(value));
            }
            Act::List(at) => {
                let list = extended.names(call, &object(at))?;
                return Ok(names_in(&list));
            }
            Act::Remove(at, name) => {
                extended.remove(call, &object(at), NAMES[name])?;
            }
        }
        Ok(Answer::Done)
    }

    fn sizes(&self) -> Vec<u64> {
        let size = |name| {
            let attributes = self.files.attributes(&self.call, &self.id(name));
            attributes.unwrap().size
        };
        FILES.map(size).to_vec()
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        let content = |name| {
            let mut bytes = Vec::new();
            loop {
                let at = bytes.len() as u64;
                let reply = self
                    .files
                    .read(&self.call, &self.id(name), at, 1 << 20)
                    .unwrap();
                let start = bytes.len();
                bytes.resize(start + reply.payload.len(), 0);
                reply.payload.copy_to(&mut bytes[start..], true).unwrap();
                if reply.end_of_file {
                    return bytes;
                }
            }
        };
        FILES.map(content).to_vec()
    }
}

fn compare(acts: &[Act], plain: &Plain, served: &Served<'_>) {
    for (number, act) in acts.iter().enumerate() {
        let expected = plain.act(act);
        let answered = served.act(act).map_err(|error| error.to_errno());
        assert_eq!(answered, expected, "call {number}: {act:?}");
        assert_eq!(
            served.sizes(),
            plain.sizes(),
            "after call {number}: {act:?}"
        );
    }
    assert!(served.contents() == plain.contents());
}

/// A tmpfs of this test alone; `None`, which is told, where there can be none with attributes of
/// users (Linux 6.6).
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount() -> Option<Self> {
        let top = tempfile::tempdir_in("/var/tmp").unwrap();
        let flags = MountFlags::empty();
        let mounted = rustix::mount::mount("tmpfs", top.path(), "tmpfs", flags, None);
        if let Err(errno) = mounted {
            pagewell_skip::skip(format_args!("no tmpfs can be mounted: {errno}"));
            return None;
        }
        let tmpfs = Self(top);
        let flags = XattrFlags::empty();
        if rustix::fs::setxattr(tmpfs.0.path(), c"user.a", b"", flags).is_err() {
            pagewell_skip::skip("a tmpfs has no attributes of users before Linux 6.6");
            return None;
        }
        Some(tmpfs)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0.path(), UnmountFlags::DETACH).unwrap();
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(96)
    }
}

#[test]
fn a_directory_answers_as_the_one_beneath() {
    proptest!(config(), |(acts in acts(), force_trails: bool)| {
        let plain = tempfile::tempdir_in("/var/tmp").unwrap();
        let top = tempfile::tempdir_in("/var/tmp").unwrap();
        let options = Options { force_trails, metadata_sync: false, ..Options::default() };
        let files = Directory::open(top.path(), options).unwrap();
        let root = Credentials::root();
        compare(&acts, &Plain::new(plain.path()), &Served::new(&files, &root));
        pagewell_fs::identity::act_for_server();
    });
}

#[test]
fn memory_answers_as_tmpfs() {
    let Some(tmpfs) = Tmpfs::mount() else {
        return;
    };
    // Memory leaves copies to the kernel, finds holes in its own pages (`holes.rs`), and has
    // nothing for the security modules of a system.
    let is_other = |act: &Act| match act {
        Act::Copy(..) | Act::Seek(..) => true,
        Act::Set(_, name, ..) | Act::Get(_, name) | Act::Remove(_, name) => {
            NAMES[*name] == c"security.a"
        }
        _ => false,
    };
    proptest!(config(), |(acts in acts())| {
        let acts: Vec<Act> = acts.into_iter().filter(|act| !is_other(act)).collect();
        let plain = tempfile::tempdir_in(tmpfs.0.path()).unwrap();
        let files = RamFileSystem::new(64 << 20).unwrap();
        let root = Credentials::root();
        compare(&acts, &Plain::new(plain.path()), &Served::new(&files, &root));
    });
}
