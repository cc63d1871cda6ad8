//! Machines whose store is a file of an NFS server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pagewell_fs::FileSystem;
use pagewell_nfsd::{Config, Export, Server, Squash};
use pagewell_source_ram::RamFileSystem;

use crate::client::{Client, User};
use crate::random::Random;
use crate::remote::RemoteStore;
use crate::store::{Machine, Store};
use crate::volume::STORE_BYTES;

const HANDLE_KEY: [u8; 16] = *b"torture tests 01";
const RAM_FILE: &[u8] = b"volume";

/// Serves one file system as `/`, in this process.
pub(crate) fn serve(filesystem: Arc<dyn FileSystem>) -> Server {
    let export = Export {
        squash: Squash::None,
        ..Export::new("/", filesystem)
    };
    let mut config = Config::new(vec![export], HANDLE_KEY);
    config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.threads = 8;
    config.slow_after = Duration::from_secs(600);
    Server::start(config).expect("a server")
}

/// The `ram` source. Its memory outlives the machines that use it: here "power" is the client's.
pub(crate) struct RamMachine {
    server: Server,
    store: Option<Arc<RemoteStore>>,
}

impl RamMachine {
    pub(crate) fn new() -> Self {
        let bytes = 2 * STORE_BYTES as u64;
        let filesystem = RamFileSystem::new(bytes).expect("a RAM file system");
        let server = serve(Arc::new(filesystem));
        let mut client = Client::connect(server.address(), User::root());
        let root = client.mount(b"/").expect("mounted");
        client.make_file(&root, RAM_FILE, b"");
        Self {
            server,
            store: None,
        }
    }
}

impl Machine for RamMachine {
    fn power_on(&mut self, cut_after: u64, random: Random) -> Arc<dyn Store> {
        let address = self.server.address();
        let store = RemoteStore::connect(address, RAM_FILE, cut_after, random);
        let store = Arc::new(store);
        self.store = Some(store.clone());
        store
    }

    fn power_off(&mut self) {
        if let Some(store) = self.store.take() {
            store.die();
        }
    }
}
