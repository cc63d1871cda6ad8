//! Servers that forget what was not committed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_fs::{Credentials, Error, FileId, FileSystem, Result, SetAttributes, Stability};
use pagewell_nfsd::Server;

use super::{Mount, pattern, root_call};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer};

/// What a write has replaced: where, the bytes, and the length of the file.
struct Undo {
    id: FileId,
    offset: u64,
    bytes: Vec<u8>,
    size: u64,
}

/// A server whose memory is lost when it crashes: what was not committed goes back to what it was.
struct Forgetful {
    inner: Arc<dyn FileSystem>,
    undo: Mutex<Vec<Undo>>,
    crashes: AtomicU64,
    /// So many COMMITs are preceded by a crash.
    crashes_before_commit: AtomicUsize,
}

impl Forgetful {
    fn crash(&self) {
        let credentials = Credentials::root();
        let call = root_call(&credentials);
        for undo in self.undo.lock().unwrap().drain(..).rev() {
            let written = self.inner.write(
                &call,
                &undo.id,
                undo.offset,
                &undo.bytes,
                Stability::FileSync,
            );
            let size = SetAttributes {
                size: Some(undo.size),
                ..Default::default()
            };
            let cut = self.inner.set_attributes(&call, &undo.id, &size, None);
            // A file that was removed meanwhile has nothing to lose.
            assert!(written.is_ok() == cut.is_ok());
        }
        self.crashes.fetch_add(1, Ordering::AcqRel);
    }
}

impl Hook for Forgetful {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        let credentials = Credentials::root();
        let call = root_call(&credentials);
        match event.operation {
            // All of the file, as servers do that synchronise it.
            "write" if event.is_stable => {
                self.undo.lock().unwrap().retain(|undo| undo.id != event.id);
            }
            "write" => {
                #[allow(clippy::cast_possible_truncation)] // a WRITE
                let old = self
                    .inner
                    .read(&call, &event.id, event.offset, event.count as u32)?;
                let mut bytes = vec![0; old.payload.len()];
                old.payload.copy_to(&mut bytes, true)?;
                let size = old.attributes.size;
                let (id, offset) = (event.id, event.offset);
                self.undo.lock().unwrap().push(Undo {
                    id,
                    offset,
                    bytes,
                    size,
                });
            }
            "commit" => {
                let left = self.crashes_before_commit.load(Ordering::Acquire);
                if left > 0 {
                    self.crashes_before_commit
                        .store(left - 1, Ordering::Release);
                    self.crash();
                }
                self.undo.lock().unwrap().retain(|undo| undo.id != event.id);
            }
            _ => {}
        }
        Ok(())
    }

    fn verifier(&self, inner: [u8; 8]) -> [u8; 8] {
        (u64::from_be_bytes(inner) ^ self.crashes.load(Ordering::Acquire)).to_be_bytes()
    }
}

fn forgetful_server() -> (Server, Arc<Forgetful>) {
    let memory = ram();
    let forgetful = Forgetful {
        inner: memory.clone(),
        undo: Mutex::default(),
        crashes: AtomicU64::new(0),
        crashes_before_commit: AtomicUsize::new(0),
    };
    let (layer, hook) = Layer::new(memory, forgetful);
    (serve(vec![export("/", layer)]), hook)
}

#[test]
fn nothing_is_lost_when_the_server_forgets_what_it_was_given() {
    let (server, hook) = forgetful_server();
    let mount = Mount::new(&server, "wsize=64k");
    let ids: Vec<FileId> = (0..5)
        .map(|number| mount.create(&format!("f{number}")))
        .collect();
    let mut expected: Vec<Vec<u8>> = vec![Vec::new(); ids.len()];
    for round in 0..6 {
        for (index, id) in ids.iter().enumerate() {
            let bytes = pattern(200_000, round * 100 + index as u64);
            let at = expected[index].len();
            mount.write(id, at as u64, &bytes).unwrap();
            expected[index].extend_from_slice(&bytes);
        }
        if round % 2 == 0 {
            // Everything is at the server, and nothing committed.
            for id in &ids {
                mount.attributes(id);
            }
            hook.crash();
        } else {
            hook.crashes_before_commit.store(3, Ordering::Release);
        }
        mount.commit(&ids[round as usize % ids.len()]).unwrap();
    }
    let before = mount.filesystem.write_verifier();
    mount.filesystem.sync().unwrap();
    assert_eq!(mount.filesystem.write_verifier(), before, "nobody is told");
    assert!(hook.crashes.load(Ordering::Acquire) >= 6);
    hook.crash();
    let other = Mount::new(&server, "");
    for (id, expected) in ids.iter().zip(&expected) {
        assert!(other.read(id).unwrap() == *expected);
        assert!(mount.read(id).unwrap() == *expected);
    }
}
