//! Exports mounted with this project's own client, `source-nfs`: the two ends of the protocol
//! against each other, each in its own right tested elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod backward;
mod data;
mod dots;
mod faults;
mod forgetful;
mod late;
mod lenient;
mod listings;
mod making;
mod model;
mod names;
mod numbers;
mod objects;
mod resent;
mod restarted;
#[cfg(debug_assertions)]
mod shared;
mod stopping;
mod tier;
mod two;
mod users;
mod waiting;
mod without_attributes;

use std::net::SocketAddr;
use std::sync::Arc;

use pagewell_cache::{Cache, CacheOptions};
use pagewell_fs::{
    Attributes, Call, CreateMode, Credentials, FileId, FileSystem, Opened, Result, SetAttributes,
    Stability,
};
use pagewell_nfsd::Server;
use pagewell_source_nfs::{NfsFileSystem, Url};
use pagewell_sunrpc::nfs3::Procedure;

use pagewell_wire::{fixture, layer, operations};

use fixture::{export, ram, serve};

/// The option of a mount that believes what it knows for as long as a test may take.
const LASTING: &str = "actimeo=600";

/// A mount of the export `/`, as root.
struct Mount {
    filesystem: NfsFileSystem,
    credentials: Credentials,
}

impl Mount {
    /// Mounts with the options of a URL.
    fn new(server: &Server, options: &str) -> Self {
        Self::with_cache(server, options, CacheOptions::new(32 << 20))
    }

    fn with_cache(server: &Server, options: &str, cache: CacheOptions) -> Self {
        Self::at(server.address(), options, cache)
    }

    fn at(address: SocketAddr, options: &str, cache: CacheOptions) -> Self {
        let url = format!("nfs://{address}/?{options}");
        let cache = Cache::new(cache).expect("a cache");
        let filesystem = NfsFileSystem::mount(&Url::parse(&url).expect("a URL"), &cache);
        Self {
            filesystem: filesystem.expect("mounted"),
            credentials: Credentials::root(),
        }
    }

    fn call(&self) -> Call<'_> {
        Call::new(&self.credentials, true)
    }

    fn root(&self) -> FileId {
        self.filesystem.root()
    }

    fn lookup(&self, name: &str) -> Result<FileId> {
        let found = self
            .filesystem
            .lookup(&self.call(), &self.root(), name.as_bytes());
        Ok(found?.id)
    }

    fn create(&self, name: &str) -> FileId {
        let mode = CreateMode::Guarded(SetAttributes {
            mode: Some(0o644),
            ..Default::default()
        });
        let created = self
            .filesystem
            .create(&self.call(), &self.root(), name.as_bytes(), &mode);
        created.expect("created").entry.id
    }

    fn write(&self, id: &FileId, offset: u64, data: &[u8]) -> Result<()> {
        let written = self
            .filesystem
            .write(&self.call(), id, offset, data, Stability::Unstable)?;
        assert_eq!(written.count as usize, data.len());
        Ok(())
    }

    fn commit(&self, id: &FileId) -> Result<()> {
        self.filesystem.commit(&self.call(), id, 0, 0).map(drop)
    }

    fn close(&self, id: &FileId) -> Result<()> {
        self.filesystem.close(&self.call(), id)
    }

    fn open(&self, id: &FileId) -> Opened {
        self.filesystem.open(&self.call(), id).expect("opened")
    }

    fn attributes(&self, id: &FileId) -> Attributes {
        self.filesystem
            .attributes(&self.call(), id)
            .expect("attributes")
    }

    fn truncate(&self, id: &FileId, size: u64) {
        let request = SetAttributes {
            size: Some(size),
            ..Default::default()
        };
        let change = self
            .filesystem
            .set_attributes(&self.call(), id, &request, None);
        // A server need not tell it: then who wants to know asks, as fronts do.
        let after = change.expect("truncated").after;
        let after = after.unwrap_or_else(|| self.attributes(id));
        assert_eq!(after.size, size);
    }

    /// Reads in pieces of so many bytes up to the end.
    fn read_by(&self, id: &FileId, piece: u32) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let offset = all.len() as u64;
            let reply = self.filesystem.read(&self.call(), id, offset, piece)?;
            let mut bytes = vec![0; reply.payload.len()];
            assert_eq!(reply.payload.copy_to(&mut bytes, true), Ok(bytes.len()));
            all.extend_from_slice(&bytes);
            if reply.end_of_file {
                return Ok(all);
            }
            assert!(!bytes.is_empty(), "no progress at {offset}");
        }
    }

    fn read(&self, id: &FileId) -> Result<Vec<u8>> {
        self.read_by(id, 1 << 20)
    }

    /// Calls of a procedure that were made.
    fn calls(&self, procedure: Procedure) -> u64 {
        self.filesystem.statistics_of_calls()[procedure.number() as usize].calls
    }

    /// Names of a directory, without `.` and `..`.
    fn list(&self, directory: &FileId, with_attributes: bool) -> Vec<String> {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let page = self.filesystem.read_directory(
                &self.call(),
                directory,
                cookie,
                with_attributes,
                &mut |entry| {
                    assert!(entry.entry.is_some() || !with_attributes);
                    if entry.name != b"." && entry.name != b".." {
                        names.push(String::from_utf8_lossy(entry.name).into_owned());
                    }
                    cookie = entry.cookie;
                    // A front takes what fits.
                    names.len() % 100 != 99
                },
            );
            if page.expect("listed").end {
                return names;
            }
        }
    }
}

/// A call of root, to a file system behind the server's back.
fn root_call(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, true)
}

/// A server of memory.
fn server() -> (Server, Arc<dyn FileSystem>) {
    let filesystem: Arc<dyn FileSystem> = ram();
    (serve(vec![export("/", filesystem.clone())]), filesystem)
}

/// Bytes that differ from place to place.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}
