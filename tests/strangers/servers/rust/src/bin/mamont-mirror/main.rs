//! Serves a directory with the library nfs-mamont. Names are text there (its type for names is a
//! `String`), and whoever calls has the rights of the server.
//!
//! usage: mamont-mirror DIRECTORY ADDRESS:PORT

mod names;
mod objects;

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nfs_mamont::mount::ExportEntry;
use nfs_mamont::service::mount::{ExportEntryWrapper, MountService};
use nfs_mamont::service::nlm::NlmService;
use nfs_mamont::vfs::set_attr::{NewAttr, SetTime};
use nfs_mamont::vfs::{DirOpArgs, Error, WccData, file};
use nfs_mamont::{Impl, ServerContext};
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps};
use strangers::Tree;

/// The largest READ and WRITE: what one buffer of the library's allocator holds.
const TRANSFER_BYTES_MAX: u32 = 64 * 1024;
const BUFFERS: usize = 256;
/// Bytes that an entry takes in a page of READDIRPLUS beside its name: number, cookie, attributes,
/// handle, and the lengths and words between them.
const ENTRY_BYTES: usize = 160;

struct Mirror {
    tree: Tree,
    /// Another one after each start.
    verifier: [u8; 8],
}

fn error(error: io::Error) -> Error {
    use rustix::io::Errno;
    match Errno::from_io_error(&error) {
        Some(Errno::PERM) => Error::Permission,
        Some(Errno::NOENT) => Error::NoEntry,
        Some(Errno::ACCESS) => Error::Access,
        Some(Errno::EXIST) => Error::Exist,
        Some(Errno::NOTDIR) => Error::NotDir,
        Some(Errno::ISDIR) => Error::IsDir,
        Some(Errno::INVAL) => Error::InvalidArgument,
        Some(Errno::NAMETOOLONG) => Error::NameTooLong,
        Some(Errno::NOTEMPTY) => Error::NotEmpty,
        Some(Errno::STALE) => Error::StaleFile,
        Some(Errno::FBIG) => Error::FileTooLarge,
        Some(Errno::NOSPC) => Error::NoSpace,
        _ => Error::IO,
    }
}

fn handle(object: u64) -> file::Handle {
    file::Handle::new(0, object.to_be_bytes())
}

fn object(handle: &file::Handle) -> u64 {
    u64::from_be_bytes(handle.payload())
}

fn time(seconds: i64, nanoseconds: i64) -> file::Time {
    file::Time {
        seconds: seconds as u32,
        nanos: nanoseconds as u32,
    }
}

fn kind(attributes: &Metadata) -> file::Type {
    let kind = attributes.file_type();
    match () {
        () if kind.is_dir() => file::Type::Directory,
        () if kind.is_symlink() => file::Type::Symlink,
        () if kind.is_fifo() => file::Type::Fifo,
        () if kind.is_socket() => file::Type::Socket,
        () if kind.is_block_device() => file::Type::BlockDevice,
        () if kind.is_char_device() => file::Type::CharacterDevice,
        () => file::Type::Regular,
    }
}

fn told(found: &Metadata) -> file::Attr {
    file::Attr {
        file_type: kind(found),
        mode: found.mode() & 0o7777,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        size: found.len(),
        used: found.blocks() * 512,
        device: file::Device {
            major: rustix::fs::major(found.rdev()),
            minor: rustix::fs::minor(found.rdev()),
        },
        fs_id: found.dev(),
        file_id: found.ino(),
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
    }
}

/// The state of an object before a change, for the answer.
struct Before(u64, Option<file::WccAttr>);

impl Mirror {
    fn path(&self, handle: &file::Handle) -> io::Result<PathBuf> {
        self.tree.path(object(handle))
    }

    fn place(&self, object: &DirOpArgs) -> io::Result<PathBuf> {
        Ok(self.path(&object.dir)?.join(object.name.as_str()))
    }

    fn look_up(&self, object: &DirOpArgs) -> io::Result<Metadata> {
        self.tree.look_up(
            u64::from_be_bytes(object.dir.payload()),
            object.name.as_str().as_ref(),
        )
    }

    fn attributes(&self, object: u64) -> Option<file::Attr> {
        Some(told(&self.tree.path(object).ok()?.symlink_metadata().ok()?))
    }

    fn before(&self, handle: &file::Handle) -> Before {
        let object = object(handle);
        let found = self.attributes(object);
        let state = |at: file::Attr| file::WccAttr {
            size: at.size,
            mtime: at.mtime,
            ctime: at.ctime,
        };
        Before(object, found.map(state))
    }

    fn change(&self, before: Before) -> WccData {
        WccData {
            before: before.1,
            after: self.attributes(before.0),
        }
    }

    fn set(path: &PathBuf, wanted: &NewAttr) -> io::Result<()> {
        if let Some(size) = wanted.size {
            File::options().write(true).open(path)?.set_len(size)?;
        }
        if wanted.uid.is_some() || wanted.gid.is_some() {
            std::os::unix::fs::lchown(path, wanted.uid, wanted.gid)?;
        }
        if let Some(mode) = wanted.mode
            && !path.symlink_metadata()?.is_symlink()
        {
            rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777))?;
        }
        let stamp = |wanted: &SetTime| match wanted {
            SetTime::DontChange => Timespec {
                tv_sec: 0,
                tv_nsec: rustix::fs::UTIME_OMIT,
            },
            SetTime::ToServer => Timespec {
                tv_sec: 0,
                tv_nsec: rustix::fs::UTIME_NOW,
            },
            SetTime::ToClient(at) => Timespec {
                tv_sec: i64::from(at.seconds),
                tv_nsec: i64::from(at.nanos),
            },
        };
        let times = Timestamps {
            last_access: stamp(&wanted.atime),
            last_modification: stamp(&wanted.mtime),
        };
        Ok(rustix::fs::utimensat(
            CWD,
            path,
            &times,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Makes an object with `make`, gives it its attributes and looks it up.
    fn made(
        &self,
        object: &DirOpArgs,
        wanted: Option<&NewAttr>,
        make: impl FnOnce(&PathBuf) -> io::Result<()>,
    ) -> io::Result<Metadata> {
        let path = self.place(object)?;
        make(&path)?;
        if let Some(wanted) = wanted {
            Self::set(&path, wanted)?;
        }
        self.look_up(object)
    }

    /// A page of a directory: cookies are hashes of names, so that they last.
    fn page(
        &self,
        directory: u64,
        cookie: u64,
        bytes_max: usize,
    ) -> io::Result<(Vec<Listed>, bool)> {
        let names = self.tree.list(directory)?;
        let mut names: Vec<_> = names
            .into_iter()
            .map(|(_, name)| (cookie_of(&name), name))
            .collect();
        names.retain(|(after, _)| *after > cookie);
        names.sort();
        let mut bytes = 512;
        let fitting = names.iter().take_while(|(_, name)| {
            bytes += ENTRY_BYTES + name.len();
            bytes <= bytes_max
        });
        let fitting = fitting.count();
        let whole = fitting == names.len();
        names.truncate(fitting);
        // Names that are not text cannot be told, and what is gone meanwhile is left out.
        let found = |(cookie, name): (u64, OsString)| {
            let attributes = self.tree.look_up(directory, &name).ok()?;
            let name = file::Name::new(name.into_string().ok()?).ok()?;
            Some(Listed {
                cookie,
                name,
                attributes,
            })
        };
        Ok((names.into_iter().filter_map(found).collect(), whole))
    }
}

struct Listed {
    cookie: u64,
    name: file::Name,
    attributes: Metadata,
}

fn cookie_of(name: &OsString) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    (name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold) >> 1).max(1)
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let [directory, address] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    rustix::process::umask(Mode::empty());
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let mirror = Mirror {
        tree: Tree::new(directory.into())?,
        verifier: started.to_be_bytes(),
    };
    let export = ExportEntryWrapper {
        export: ExportEntry {
            directory: file::Path::new("/".into())?,
            names: Vec::new(),
        },
        root_handle: handle(mirror.tree.root()),
    };
    let size = |count: usize| NonZeroUsize::new(count).unwrap();
    let buffers = Arc::new(Impl::new(size(TRANSFER_BYTES_MAX as usize), size(BUFFERS)));
    let context = ServerContext::new(buffers, size(16));
    context.add_backend(Arc::new(mirror)).unwrap();
    let mounts = Arc::new(MountService::with_exports(vec![export]));
    let listener = tokio::net::TcpListener::bind(address).await?;
    nfs_mamont::handle_forever(listener, context, mounts, Arc::new(NlmService::new())).await
}
