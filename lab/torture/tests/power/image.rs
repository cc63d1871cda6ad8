//! A disk image on a device whose power fails, served over NFS. The server and the cache in it
//! live as long as the power.
//!
//! Two machines: one where the client is a program on the server's own machine and ends with it
//! ([`ImageMachine`]), and one where the client lives on and finds another server
//! ([`RestartedMachine`]).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_cache::{Cache, CacheOptions};
use pagewell_nfsd::Server;
use pagewell_source_image::{ImageFileSystem, Origin};

use crate::cached::CACHE_BYTES;
use crate::power::{FailingPower, Medium, medium};
use crate::random::Random;
use crate::served::serve;
use crate::store::{Machine, Result, Store};
use crate::writer::{Trouble, Writer};

const NAME: &[u8] = b"disk.img";

/// A server with power.
struct Served {
    power: Arc<FailingPower>,
    server: Option<Server>,
}

impl Served {
    fn start(medium: &Medium, cut_after: u64, random: Random) -> Self {
        let power = FailingPower::new(medium, cut_after, true, random);
        let cache = Cache::new(CacheOptions::new(CACHE_BYTES)).expect("memory for a cache");
        let origin = Origin::of_memory(NAME);
        let image = ImageFileSystem::from_device(power.clone(), origin, &cache).writable();
        let server = Some(serve(Arc::new(image)));
        Self { power, server }
    }

    fn connect(&self, random: Random) -> Writer {
        Writer::connect(self.address(), b"/", NAME, random)
    }

    fn address(&self) -> SocketAddr {
        self.server.as_ref().expect("it runs").address()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.power.cut();
        // It cannot write what is dirty, and says so.
        let stopped = self.server.take().map(Server::stop);
        drop(stopped);
    }
}

/// The client ends with the server.
pub(crate) struct ImageMachine {
    medium: Medium,
    on: Option<Arc<ImageStore>>,
}

struct ImageStore {
    writer: Mutex<Writer>,
    served: Served,
}

impl ImageMachine {
    pub(crate) fn new() -> Self {
        Self {
            medium: medium(),
            on: None,
        }
    }
}

impl Machine for ImageMachine {
    fn power_on(&mut self, cut_after: u64, mut random: Random) -> Arc<dyn Store> {
        let served = Served::start(&self.medium, cut_after, Random::new(random.number()));
        let writer = Mutex::new(served.connect(random));
        let store = Arc::new(ImageStore { writer, served });
        self.on = Some(store.clone());
        store
    }

    fn power_off(&mut self) {
        if let Some(store) = self.on.take() {
            store.served.power.cut();
            store.writer.lock().die();
        }
    }
}

impl ImageStore {
    fn call(
        &self,
        act: impl FnOnce(&mut Writer) -> std::result::Result<(), Trouble>,
    ) -> Result<()> {
        if self.is_cut() {
            return Err("no power".to_owned());
        }
        act(&mut self.writer.lock()).map_err(|trouble| format!("{trouble:?}"))
    }
}

impl Store for ImageStore {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.call(|writer| writer.read(offset, target))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.call(|writer| writer.write(offset, data))
    }

    fn sync(&self) -> Result<()> {
        self.call(Writer::sync)
    }

    fn is_cut(&self) -> bool {
        self.served.power.is_cut()
    }
}

/// Requests of a server's device until its power fails.
const REQUESTS_MAX: u64 = 100;

/// The client outlives its servers: it sees no error, only a wait.
pub(crate) struct RestartedMachine {
    medium: Medium,
    /// Times the power of a server failed under a client.
    cuts: Arc<AtomicU64>,
}

struct RestartedStore {
    medium: Medium,
    cuts: Arc<AtomicU64>,
    state: Mutex<Pair>,
}

struct Pair {
    writer: Writer,
    served: Served,
    random: Random,
}

impl RestartedMachine {
    pub(crate) fn new(cuts: Arc<AtomicU64>) -> Self {
        Self {
            medium: medium(),
            cuts,
        }
    }
}

impl Machine for RestartedMachine {
    /// The client's own power never fails.
    fn power_on(&mut self, _cut_after: u64, mut random: Random) -> Arc<dyn Store> {
        let cut_after = random.below(REQUESTS_MAX);
        let served = Served::start(&self.medium, cut_after, Random::new(random.number()));
        let writer = served.connect(Random::new(random.number()));
        Arc::new(RestartedStore {
            medium: self.medium.clone(),
            cuts: self.cuts.clone(),
            state: Mutex::new(Pair {
                writer,
                served,
                random,
            }),
        })
    }

    fn power_off(&mut self) {}
}

impl RestartedStore {
    /// Makes calls until they succeed, on one server after the other.
    fn call(
        &self,
        mut act: impl FnMut(&mut Writer) -> std::result::Result<(), Trouble>,
    ) -> Result<()> {
        let mut pair = self.state.lock();
        loop {
            let result = act(&mut pair.writer);
            match result {
                Err(_) if pair.served.power.is_cut() => {}
                result => return result.map_err(|trouble| format!("{trouble:?}")),
            }
            pair.writer.die();
            let cut_after = pair.random.below(REQUESTS_MAX);
            let random = Random::new(pair.random.number());
            pair.served = Served::start(&self.medium, cut_after, random);
            let address = pair.served.address();
            pair.writer.reconnect(address);
            self.cuts.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Store for RestartedStore {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.call(|writer| writer.read(offset, target))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        // What could not be sent is kept, and is not to be kept twice.
        let mut data = Some(data);
        self.call(|writer| match data.take() {
            Some(data) => writer.write(offset, data),
            None => Ok(()),
        })
    }

    fn sync(&self) -> Result<()> {
        self.call(Writer::sync)
    }

    fn is_cut(&self) -> bool {
        false
    }
}
