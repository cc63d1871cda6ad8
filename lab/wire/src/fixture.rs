//! Servers in this process, on a port of their own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{Cache, CacheOptions};
use pagewell_device::{FileDevice, FileOptions};
use pagewell_fs::FileSystem;
use pagewell_nfsd::{Config, Export, Server, Squash};
use pagewell_source_dir::{Directory, Options};
use pagewell_source_image::{ImageFileSystem, Origin};
use pagewell_source_ram::RamFileSystem;
use tempfile::TempDir;

use crate::client::{Client, User};
use crate::operations::FileHandle;

/// The key of every server here, so that handles outlive a restart.
pub const HANDLE_KEY: [u8; 16] = *b"wire test key 01";

/// Size of RAM file systems.
pub const RAM_BYTES: u64 = 256 << 20;

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory.
    Ram,
    /// A directory whose objects are named by kernel handles.
    Directory,
    /// A directory whose objects are named by inode number and path hint.
    PathHints,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Ram, Self::Directory, Self::PathHints];
}

/// A server with one export named `/`, without squashing.
pub struct Fixture {
    pub kind: Kind,
    server: Server,
    /// Holds the export `exported` and a neighbour `outside`.
    folder: Option<TempDir>,
}

/// Opens a directory as the tests serve it: the device need not be waited for.
pub fn directory(path: &Path, kind: Kind) -> Directory {
    let options = Options {
        metadata_sync: false,
        force_trails: kind == Kind::PathHints,
        ..Options::default()
    };
    Directory::open(path, options).expect("the directory can be served")
}

pub fn ram() -> Arc<RamFileSystem> {
    Arc::new(RamFileSystem::new(RAM_BYTES).expect("a RAM file system"))
}

/// Where the pages of disk images are.
pub fn image_cache() -> Cache {
    Cache::new(CacheOptions::new(8 << 20)).expect("a cache")
}

/// A file as a disk image that can be written.
pub fn image(path: &Path) -> ImageFileSystem {
    let options = FileOptions {
        writable: true,
        ..FileOptions::default()
    };
    let device = FileDevice::open_with(path, options).expect("the image can be written");
    let origin = Origin::of_path(path).expect("the image is there");
    ImageFileSystem::from_device(Arc::new(device), origin, &image_cache()).writable()
}

/// An export without squashing.
pub fn export(name: &str, filesystem: Arc<dyn FileSystem>) -> Export {
    Export {
        squash: Squash::None,
        ..Export::new(name, filesystem)
    }
}

/// A server of these exports on a free port.
pub fn serve(exports: Vec<Export>) -> Server {
    serve_with(exports, |_| {})
}

/// [`serve`] with other settings.
pub fn serve_with(exports: Vec<Export>, change: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config::new(exports, HANDLE_KEY);
    config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.threads = 16;
    // A busy machine may let a healthy disk wait for seconds: no test but those of slow storage
    // is to be told to ask again.
    config.slow_after = Duration::from_secs(600);
    change(&mut config);
    Server::start(config).expect("a server")
}

/// A client that is root, and the root of the export `/`.
pub fn connect(server: &Server) -> (Client, FileHandle) {
    let mut client = Client::connect(server.address(), User::root());
    let root = client.mount(b"/").expect("mounted");
    (client, root)
}

impl Fixture {
    pub fn new(kind: Kind) -> Self {
        Self::with(kind, |_| {})
    }

    /// A server whose export is changed first.
    pub fn with(kind: Kind, change: impl FnOnce(&mut Export)) -> Self {
        let folder = (kind != Kind::Ram).then(|| tempfile::tempdir().unwrap());
        let filesystem: Arc<dyn FileSystem> = match &folder {
            None => ram(),
            Some(folder) => {
                let exported = folder.path().join("exported");
                std::fs::create_dir(&exported).unwrap();
                std::fs::create_dir(folder.path().join("outside")).unwrap();
                Arc::new(directory(&exported, kind))
            }
        };
        let mut export = export("/", filesystem);
        change(&mut export);
        Self {
            kind,
            server: serve(vec![export]),
            folder,
        }
    }

    /// Where the temporary directory of a kind other than RAM is.
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().expect("a directory is served").path()
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A client that is root, and the root of the export.
    pub fn client(&self) -> (Client, FileHandle) {
        connect(&self.server)
    }

    /// A client that is an ordinary user.
    pub fn client_of(&self, uid: u32) -> Client {
        Client::connect(self.address(), User::System(uid, uid, Vec::new()))
    }

    /// Whether callers are distinguished: not so in a directory that is served by an ordinary user.
    pub fn knows_users(&self) -> bool {
        self.kind == Kind::Ram || rustix::process::geteuid().is_root()
    }
}

/// Runs a test on every kind of file system that can be written.
pub fn on_each_kind(test: impl Fn(&Fixture)) {
    for kind in Kind::ALL {
        eprintln!("serving {kind:?}");
        test(&Fixture::new(kind));
    }
}
