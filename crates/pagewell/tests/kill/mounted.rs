//! The same under this project's own client, `source-nfs`: a server that is killed 50 times while a
//! mount writes. What was committed must be in the image that the server leaves; and nothing at all
//! may be missing at the end, as the client has kept what was not.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell_base::sync::Mutex;
use pagewell_cache::{Cache, CacheOptions};
use pagewell_fs::{Call, Credentials, FileId, FileSystem, Finish, Stability};
use pagewell_source_nfs::{NfsFileSystem, Url};

use crate::random::Random;
use crate::support::Serve;
use crate::{FILE_BYTES, Kind, NAME, Trial};

/// How often the server is killed at least.
const ROUNDS: u32 = 50;

/// What the file must hold, and which of it was committed.
struct Model {
    bytes: Vec<u8>,
    is_committed: Vec<bool>,
}

/// Writes and commits until it is to stop.
fn work(mount: &NfsFileSystem, id: &FileId, model: &Mutex<Model>, stop: &AtomicBool) -> u64 {
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let mut random = Random::new(7);
    let mut commits = 0;
    let mut written = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let most = random.of(&[100, 5000, 70_000]);
        let length = usize::try_from(1 + random.below(most)).unwrap();
        let offset = random.below((FILE_BYTES - length) as u64);
        let start = usize::try_from(offset).unwrap();
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        let mut guard = model.lock();
        guard.bytes[start..start + length].copy_from_slice(&bytes);
        guard.is_committed[start..start + length].fill(false);
        drop(guard);
        mount
            .write(&call, id, offset, &bytes, Stability::Unstable)
            .unwrap();
        written.push(start..start + length);
        if random.below(8) == 0 {
            mount.commit(&call, id, 0, 0).unwrap();
            commits += 1;
            let mut guard = model.lock();
            for range in written.drain(..) {
                guard.is_committed[range].fill(true);
            }
        }
    }
    mount.commit(&call, id, 0, 0).unwrap();
    commits
}

/// Compares the image that a dead server has left with what was committed; says how many bytes
/// that were not are missing.
fn check(trial: &Trial, model: &Mutex<Model>) -> usize {
    let guard = model.lock();
    let found = fs::read(trial.file()).unwrap();
    let mut missing = 0;
    for (at, byte) in found.iter().enumerate() {
        let is_same = *byte == guard.bytes[at];
        assert!(
            is_same || !guard.is_committed[at],
            "byte {at} was committed"
        );
        missing += usize::from(!is_same);
    }
    missing
}

fn serve_at(trial: &Trial, listen: &str) -> Serve {
    let (state, source) = (
        trial.path("state"),
        format!("image:{}", trial.file().display()),
    );
    let state = state.to_str().unwrap();
    Serve::start_exactly(&[
        "--listen",
        listen,
        "--state-dir",
        state,
        "--squash",
        "none",
        "--cache",
        "8m",
        &source,
    ])
}

#[test]
fn a_mount_loses_nothing_when_its_server_is_killed_50_times() {
    let trial = Trial::new(Kind::Image, 3);
    // An address of its own, so that no other server takes the port meanwhile.
    let mut serve = serve_at(&trial, "127.9.8.22:0");
    let address = serve.address().to_string();
    let cache = Cache::new(CacheOptions::new(16 << 20)).unwrap();
    let url = Url::parse(&format!("nfs://{address}/?timeo=100&wsize=64k")).unwrap();
    let mount = NfsFileSystem::mount(&url, &cache).unwrap();
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let id = mount
        .lookup(&call, &mount.root(), NAME.as_bytes())
        .unwrap()
        .id;
    let model = Mutex::new(Model {
        bytes: vec![0; FILE_BYTES],
        is_committed: vec![true; FILE_BYTES],
    });
    let stop = AtomicBool::new(false);
    let before = mount.write_verifier(None);
    let mut missing = 0;
    let serve = std::thread::scope(|scope| {
        let writer = scope.spawn(|| work(&mount, &id, &model, &stop));
        let mut random = Random::new(11);
        // What is written and not committed when the server dies is a matter of chance.
        let mut rounds = 0;
        while rounds < ROUNDS || (missing == 0 && rounds < 10 * ROUNDS) {
            rounds += 1;
            std::thread::sleep(Duration::from_millis(5 + random.below(40)));
            serve.signal("KILL");
            serve.end();
            missing += check(&trial, &model);
            serve = serve_at(&trial, &address);
        }
        stop.store(true, Ordering::Release);
        let commits = writer.join().unwrap();
        assert!(commits > 0);
        println!("{rounds} rounds, {commits} commits, {missing} bytes not safe when it died");
        serve
    });
    assert_eq!(
        mount.write_verifier(None),
        before,
        "nobody was told of a loss"
    );
    serve.signal("KILL");
    serve.end();
    assert_eq!(check(&trial, &model), 0, "what was written and committed");
    assert!(missing > 0, "no server had anything to lose");
    // There is nobody to unmount from.
    assert_eq!(mount.finish(Finish::Abandon), Ok(0));
}
