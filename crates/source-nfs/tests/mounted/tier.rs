//! Pages of files in a disk tier: there after a restart, and never those of another version.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::mix::Random;
use pagewell_cache::{BYTES_MIN, Cache, CacheOptions};
use pagewell_counters::names::TIER_HITS;
use pagewell_disk_tier::Tier;
use pagewell_fs::{Credentials, FileId, FileSystem, SetAttributes, Stability};
use pagewell_nfsd::Server;
use pagewell_source_nfs::{NfsFileSystem, Url};
use pagewell_sunrpc::nfs3::Procedure;
use tempfile::TempDir;

use super::layer::make_file;
use super::without_attributes::Silencer;
use super::{LASTING, Mount, pattern, root_call, server};

const TIER_BYTES: u64 = 64 << 20;
const CACHE_BYTES: u64 = 32 << 20;

struct Place {
    tier: Arc<Tier>,
    cache_bytes: u64,
    kept_after: Duration,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            tier: Tier::open(folder.path(), TIER_BYTES).unwrap(),
            cache_bytes: CACHE_BYTES,
            kept_after: Duration::ZERO,
            _folder: folder,
        }
    }

    fn mount(&self, address: SocketAddr, options: &str) -> Mount {
        let mut url = Url::parse(&format!("nfs://{address}/?{options}")).unwrap();
        url.options.kept_after = self.kept_after;
        let cache = Cache::new(CacheOptions::new(self.cache_bytes)).unwrap();
        let filesystem = NfsFileSystem::mount_over(&url, &cache, Some(self.tier.clone()));
        Mount {
            filesystem: filesystem.unwrap(),
            credentials: Credentials::root(),
        }
    }
}

/// Opens, as a program would, and reads.
fn read(mount: &Mount, name: &str, piece: u32) -> Vec<u8> {
    let id = mount.lookup(name).unwrap();
    let _opened = mount.open(&id);
    let bytes = mount.read_by(&id, piece).unwrap();
    mount.close(&id).unwrap();
    bytes
}

fn change(behind: &dyn FileSystem, id: &FileId, offset: u64, data: &[u8]) {
    let credentials = Credentials::root();
    let call = root_call(&credentials);
    let written = behind.write(&call, id, offset, data, Stability::FileSync);
    assert_eq!(written.unwrap().count as usize, data.len());
}

fn reads_after_restart(server: &Server, options: &str, piece: u32, bytes: &[u8]) -> u64 {
    let place = Place::new();
    let mount = place.mount(server.address(), options);
    assert!(read(&mount, "file", piece) == bytes);
    assert!(mount.calls(Procedure::Read) > 0);
    assert_eq!(place.tier.kept_pages(), bytes.len().div_ceil(65_536));
    drop(mount);
    // Pages may be on their way to the disk.
    let began = Instant::now();
    loop {
        let mount = place.mount(server.address(), options);
        assert!(read(&mount, "file", piece) == bytes);
        let reads = mount.calls(Procedure::Read);
        if reads == 0 || began.elapsed() > Duration::from_secs(120) {
            return reads;
        }
    }
}

#[test]
fn a_file_that_was_read_is_not_asked_for_after_a_restart() {
    for length in [10, 65_536, 300_000] {
        let (server, behind) = server();
        let bytes = pattern(length, 1);
        make_file(&*behind, b"file", &bytes);
        for (options, piece) in [("", 1 << 20), ("", 3000), ("rsize=20480", 1 << 20)] {
            let reads = reads_after_restart(&server, options, piece, &bytes);
            assert_eq!(reads, 0, "{length} bytes, {options:?}, by {piece}");
        }
    }
}

#[test]
fn what_the_server_has_changed_is_read_anew() {
    let (server, behind) = server();
    let mut bytes = pattern(200_000, 1);
    let id = make_file(&*behind, b"file", &bytes);
    let place = Place::new();
    let mount = place.mount(server.address(), "");
    assert!(read(&mount, "file", 1 << 20) == bytes);
    // While it is mounted, and between two mounts.
    bytes[70_000..70_010].fill(7);
    change(&*behind, &id, 70_000, &[7; 10]);
    assert!(read(&mount, "file", 1 << 20) == bytes);
    drop(mount);
    bytes[100..110].fill(8);
    change(&*behind, &id, 100, &[8; 10]);
    let mount = place.mount(server.address(), "");
    assert!(read(&mount, "file", 1 << 20) == bytes);
    assert!(mount.calls(Procedure::Read) > 0);
}

#[test]
fn what_has_changed_lately_is_not_kept() {
    let (server, behind) = server();
    make_file(&*behind, b"file", &pattern(200_000, 1));
    let place = Place {
        kept_after: Duration::from_secs(3600),
        ..Place::new()
    };
    let mount = place.mount(server.address(), "");
    assert_eq!(read(&mount, "file", 1 << 20).len(), 200_000);
    assert_eq!(place.tier.kept_pages(), 0);
}

#[test]
fn what_comes_without_attributes_is_not_kept() {
    let (server, behind) = server();
    let bytes = pattern(200_000, 1);
    make_file(&*behind, b"file", &bytes);
    let silencer = Silencer::new(&server);
    let place = Place::new();
    let mount = place.mount(silencer.address(), "");
    assert!(read(&mount, "file", 1 << 20) == bytes);
    assert_eq!(place.tier.kept_pages(), 0);
}

/// A mount, the file system behind its server, and what a file is to have.
struct Model {
    place: Place,
    server: Server,
    mount: Option<Mount>,
    behind: Arc<dyn FileSystem>,
    id: FileId,
    bytes: Vec<u8>,
}

impl Model {
    fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }

    fn write(&mut self, offset: usize, data: &[u8], is_here: bool) {
        let end = self.bytes.len().max(offset + data.len());
        self.bytes.resize(end, 0);
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
        if !is_here {
            return change(&*self.behind, &self.id, offset as u64, data);
        }
        let mount = self.mount();
        let id = mount.lookup("file").unwrap();
        let _opened = mount.open(&id);
        mount.write(&id, offset as u64, data).unwrap();
        mount.close(&id).unwrap();
    }

    fn cut(&mut self, size: usize, is_here: bool) {
        self.bytes.resize(size, 0);
        if is_here {
            let id = self.mount().lookup("file").unwrap();
            return self.mount().truncate(&id, size as u64);
        }
        let credentials = Credentials::root();
        let size = SetAttributes {
            size: Some(size as u64),
            ..SetAttributes::default()
        };
        let call = root_call(&credentials);
        let changed = self.behind.set_attributes(&call, &self.id, &size, None);
        changed.unwrap();
    }

    fn restart(&mut self) {
        self.mount = None;
        self.mount = Some(self.place.mount(self.server.address(), ""));
    }
}

/// Programs here and another client change a file at random, and cut it off; memory is small, and
/// the mount is made anew now and then. What is read after an open is what was written.
#[test]
fn no_page_of_another_version_is_ever_read() {
    let (server, behind) = server();
    let bytes = pattern(500_000, 1);
    let id = make_file(&*behind, b"file", &bytes);
    make_file(&*behind, b"other", &pattern(6 << 20, 2));
    let place = Place {
        cache_bytes: BYTES_MIN,
        ..Place::new()
    };
    let mount = Some(place.mount(server.address(), ""));
    let mut model = Model {
        place,
        server,
        mount,
        behind,
        id,
        bytes,
    };
    let (mut random, hits) = (Random(3), TIER_HITS.get());
    for step in 0..400_u64 {
        let most = model.bytes.len() as u64 + 1;
        let offset = usize::try_from(random.below(most)).unwrap();
        let length = usize::try_from(1 + random.below(100_000)).unwrap();
        match random.below(8) {
            is_here @ 0..2 => model.write(offset, &pattern(length, step), is_here == 0),
            is_here @ 2..4 => model.cut((offset + length).min(600_000), is_here == 2),
            // What is in memory goes.
            4 => drop(read(model.mount(), "other", 1 << 20)),
            5 => model.restart(),
            _ => {}
        }
        let piece = [1 << 20, 30_000, 70_000][usize::try_from(random.below(3)).unwrap()];
        let found = read(model.mount(), "file", piece);
        assert!(found == model.bytes, "step {step}");
    }
    assert!(TIER_HITS.get() > hits + 100);
}

#[test]
fn what_is_another_version_when_it_comes_is_not_kept() {
    let (server, behind) = server();
    let id = make_file(&*behind, b"file", &pattern(200_000, 1));
    let place = Place::new();
    let mount = place.mount(server.address(), LASTING);
    let there = mount.lookup("file").unwrap();
    change(&*behind, &id, 0, &[7; 10]);
    assert_eq!(mount.read(&there).unwrap().len(), 200_000);
    assert!(mount.calls(Procedure::Read) > 0);
    assert_eq!(place.tier.kept_pages(), 0);
}
