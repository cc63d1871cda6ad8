//! A server that is killed (SIGKILL) under a client that writes: 200 times, at random calls, a
//! random moment after the call was sent.
//!
//! What was answered as durable must be in the file that the server leaves, byte for byte, before
//! anybody sends anything again: data of stable writes, and of unstable ones after a COMMIT that
//! returned their verifier. What was not is sent again by the client, to the next server, when
//! it learns of another verifier; at the end all bytes are there.
//!
//! Every choice follows from a seed, but for when the kernel ends the process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod mounted;
mod silent;
#[allow(dead_code, reason = "it can do more than is wanted here")]
#[path = "../cli/support.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagewell_wire::random;
use pagewell_wire::random::Random;
use pagewell_wire::writer::{Event, Trouble, Writer};
use rustix::process::{Pid, Signal};
use support::Serve;
use tempfile::TempDir;

/// Small enough that the same bytes are written again and again.
const FILE_BYTES: usize = 1 << 20;
const NAME: &str = "file";
/// Calls of a life of the server, at most.
const CALLS_MAX: u64 = 60;
/// The kernel ends the server up to so long after the call was sent.
const DELAY_MICROSECONDS_MAX: u64 = 2000;

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    Image,
}

/// A served file and what it must hold.
struct Trial {
    kind: Kind,
    folder: TempDir,
    model: Vec<u8>,
    random: Random,
    /// Bytes that were answered as durable when the server was killed, and compared.
    compared_bytes: u64,
    /// Bytes that were lost, and might be: the client still had them.
    lost_bytes: u64,
}

impl Trial {
    fn new(kind: Kind, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trial = Self {
            kind,
            folder,
            model: vec![0; FILE_BYTES],
            random: Random::new(seed),
            compared_bytes: 0,
            lost_bytes: 0,
        };
        fs::create_dir(trial.folder.path().join("served")).unwrap();
        fs::write(trial.file(), &trial.model).unwrap();
        trial
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("served").join(NAME)
    }

    fn serve(&self) -> Serve {
        let named = |kind: &str, path: &Path| format!("{kind}:{}", path.display());
        let source = match self.kind {
            Kind::Directory => named("dir", &self.path("served")),
            Kind::Image => named("image", &self.file()),
        };
        let state = self.path("state");
        let state = state.to_str().unwrap();
        let listen = ["--listen", "127.0.0.1:0", "--state-dir", state];
        let rest = ["--squash", "none", "--cache", "8m", &source];
        Serve::start_exactly(&[&listen[..], &rest[..]].concat())
    }

    /// Writes, reads and synchronises until the server is gone.
    fn work(&mut self, writer: &mut Writer) {
        loop {
            let random = &mut self.random;
            let most = random.of(&[100, 5000, 70_000]);
            let length = usize::try_from(1 + random.below(most)).unwrap();
            let offset = random.below((FILE_BYTES - length) as u64);
            let start = usize::try_from(offset).unwrap();
            let outcome = match random.below(10) {
                0..=6 => {
                    let target = &mut self.model[start..start + length];
                    random.fill(target);
                    writer.write(offset, target)
                }
                7 => {
                    let mut found = vec![0; length.min(32 << 10)];
                    let expected = &self.model[start..start + found.len()];
                    writer.read(offset, &mut found).map(|()| {
                        assert!(
                            found == expected,
                            "{length} bytes at {offset} are read wrong"
                        );
                    })
                }
                _ => writer.sync(),
            };
            match outcome {
                Ok(()) => {}
                Err(Trouble::Gone) => return,
                Err(Trouble::Failed(what)) => panic!("{what}"),
            }
        }
    }

    /// What is in the file now, behind the server's back.
    fn check(&mut self, writer: &Writer, life: u64) {
        let found = fs::read(self.file()).unwrap();
        assert_eq!(found.len(), FILE_BYTES);
        let mut is_kept = vec![false; FILE_BYTES];
        for (offset, length) in writer.kept() {
            let start = usize::try_from(offset).unwrap();
            is_kept[start..start + length].fill(true);
        }
        for (at, is_kept) in is_kept.into_iter().enumerate() {
            let same = found[at] == self.model[at];
            assert!(
                same || is_kept,
                "byte {at} was acknowledged and is lost, life {life}, {:?}",
                self.kind
            );
            self.compared_bytes += u64::from(!is_kept);
            self.lost_bytes += u64::from(!same);
        }
    }
}

/// Kills the server so often; returns bytes that were lost and sent again.
fn kill(kind: Kind, lives: u64, seed: u64) -> u64 {
    let begin = Instant::now();
    let mut trial = Trial::new(kind, seed);
    let mut serve = trial.serve();
    let random = Random::new(trial.random.number());
    let mut writer = Writer::connect(serve.address(), b"/", NAME.as_bytes(), random);
    for life in 0..lives {
        let victim = Pid::from_raw(serve.process_id().cast_signed()).unwrap();
        let delay = Duration::from_micros(trial.random.below(DELAY_MICROSECONDS_MAX));
        let event = Event::Call(Box::new(move || {
            std::thread::sleep(delay);
            rustix::process::kill_process(victim, Signal::KILL).unwrap();
        }));
        writer.arm(trial.random.below(CALLS_MAX), event);
        trial.work(&mut writer);
        drop(serve);
        trial.check(&writer, life);
        serve = trial.serve();
        writer.reconnect(serve.address());
    }
    writer.sync().expect("all is written in the end");
    drop(serve);
    trial.check(&writer, lives);
    assert_eq!(writer.kept().count(), 0);
    assert!(writer.sent_again > lives / 4, "the verifier changed");
    println!(
        "{kind:?}: {lives} kills, {} calls, {} writes sent again, {} bytes compared, {} lost that \
         were kept, in {:?}",
        writer.calls,
        writer.sent_again,
        trial.compared_bytes,
        trial.lost_bytes,
        begin.elapsed()
    );
    trial.lost_bytes
}

#[test]
fn a_directory_keeps_what_was_acknowledged_when_the_server_is_killed() {
    kill(Kind::Directory, 20, 1);
}

#[test]
fn an_image_keeps_what_was_acknowledged_when_the_server_is_killed_200_times() {
    let lost = kill(Kind::Image, 200, 2);
    // Else nothing depended on what the client did.
    assert!(lost > 0, "no server had anything to lose");
}
