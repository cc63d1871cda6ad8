//! Small WRITEs that came together and adjoin are made as one, and nothing else about them differs.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Result, Written};
use pagewell_sunrpc::nfs3::{Procedure, StableHow, Status, WccAttributes, WriteArguments, WriteOk};

use crate::client::{Answer, Client, encoded, marked, next_xid};
use crate::fixture::{connect, export, on_each_kind, ram, serve};
use crate::layer::{Event, Hook, Layer};
use crate::operations::{handle, written};

const PIECE: usize = 4096;

/// Records of WRITEs, and their identifiers.
#[derive(Default)]
struct Calls {
    bytes: Vec<u8>,
    xids: Vec<u32>,
}

impl Calls {
    fn add(&mut self, client: &Client, file: &[u8], offset: usize, data: &[u8], stable: StableHow) {
        let xid = next_xid();
        let arguments = encoded(&WriteArguments {
            file: handle(file),
            offset: offset as u64,
            count: u32::try_from(data.len()).unwrap(),
            stable,
            data,
        });
        let record = client.record(xid, Procedure::Write, &arguments);
        self.bytes.extend(marked(&record));
        self.xids.push(xid);
    }

    /// Unstable ones of all of `data`, one behind the other.
    fn of(client: &Client, file: &[u8], data: &[u8]) -> Self {
        let mut calls = Self::default();
        for (index, piece) in data.chunks(PIECE).enumerate() {
            calls.add(client, file, index * PIECE, piece, StableHow::Unstable);
        }
        calls
    }

    fn make(&self, client: &mut Client) -> Vec<Answer> {
        client.send(&self.bytes);
        self.xids.iter().map(|xid| client.finish(*xid)).collect()
    }
}

fn results(answers: &[Answer]) -> Vec<std::result::Result<WriteOk, Status>> {
    let result = |answer| written(answer, StableHow::Unstable);
    answers.iter().map(result).collect()
}

fn data(round: usize) -> Vec<u8> {
    (0..7 * PIECE).map(|at| (at / 7 + round) as u8).collect()
}

fn content(client: &mut Client, file: &[u8]) -> Vec<u8> {
    let read = client.read(file, 0, 8 * PIECE as u32);
    read.unwrap().bytes
}

/// Writes as the file system saw them.
#[derive(Default)]
struct Seen {
    writes: Mutex<Vec<(u64, usize)>>,
    /// A write of this byte fails; 0: none does.
    broken_at: AtomicUsize,
    /// More bytes are not written at once; 0: all are.
    bytes_max: AtomicUsize,
}

impl Hook for Seen {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation != "write" {
            return Ok(());
        }
        self.writes.lock().push((event.offset, event.count));
        let broken_at = self.broken_at.load(Ordering::SeqCst) as u64;
        let range = event.offset..event.offset + event.count as u64;
        Error::NoSpace.when(broken_at > 0 && range.contains(&broken_at))
    }

    fn written(&self, inner: Written) -> Written {
        let bytes_max = self.bytes_max.load(Ordering::SeqCst);
        let most = if bytes_max == 0 {
            usize::MAX
        } else {
            bytes_max
        };
        let count = inner.count.min(u32::try_from(most).unwrap_or(u32::MAX));
        Written { count, ..inner }
    }
}

/// Makes `attempt` again until its calls were received together, which TCP does not promise.
fn until_joined(seen: &Seen, mut attempt: impl FnMut(usize)) -> Vec<(u64, usize)> {
    for round in 0..200 {
        seen.writes.lock().clear();
        attempt(round);
        let writes = std::mem::take(&mut *seen.writes.lock());
        if writes.contains(&(0, 7 * PIECE)) {
            return writes;
        }
    }
    panic!("calls are never received together");
}

#[test]
fn adjoining_writes_have_the_bytes_and_attributes_of_single_ones() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        for round in 0..20 {
            let before = client.getattr(&file).unwrap();
            let data = data(round);
            let answers = Calls::of(&client, &file, &data).make(&mut client);
            let after = client.getattr(&file).unwrap();
            let mut last = Some(before.wcc());
            for result in results(&answers) {
                let result = result.unwrap();
                assert_eq!(result.count as usize, PIECE);
                let seen: Option<WccAttributes> = result.file_wcc.before;
                assert!(seen.is_none() || seen == last, "another change is seen");
                last = result.file_wcc.after.map(|after| after.wcc());
            }
            assert_eq!(last, Some(after.wcc()));
            assert!(content(&mut client, &file) == data);
        }
    });
}

#[test]
fn they_are_one_write_and_others_are_not() {
    let (layer, seen) = Layer::new(ram(), Seen::default());
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    let other = client.make_file(&root, b"other", b"");
    let joined = until_joined(&seen, |round| {
        let calls = Calls::of(&client, &file, &data(round));
        calls.make(&mut client);
    });
    assert_eq!(joined, [(0, 7 * PIECE)]);
    for round in 0..20 {
        seen.writes.lock().clear();
        let mut calls = Calls::default();
        let piece = &data(round)[..1000];
        calls.add(&client, &file, 0, piece, StableHow::Unstable);
        calls.add(&client, &file, 1000, piece, StableHow::FileSync);
        calls.add(&client, &file, 2000, piece, StableHow::FileSync);
        calls.add(&client, &other, 3000, piece, StableHow::Unstable);
        calls.add(&client, &file, 4000, piece, StableHow::Unstable);
        calls.add(&client, &file, 5001, piece, StableHow::Unstable);
        calls.add(&client, &file, 5001, piece, StableHow::Unstable);
        calls.make(&mut client);
        let mut offsets: Vec<_> = seen.writes.lock().iter().map(|write| write.0).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets, [0, 1000, 2000, 3000, 4000, 5001]);
    }
}

#[test]
fn each_has_its_own_error() {
    let (layer, seen) = Layer::new(ram(), Seen::default());
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", &[0; 7 * PIECE]);
    seen.broken_at.store(3 * PIECE + 5, Ordering::SeqCst);
    until_joined(&seen, |round| {
        let data = data(round);
        let answers = Calls::of(&client, &file, &data).make(&mut client);
        for (index, result) in results(&answers).into_iter().enumerate() {
            let status = result.map_or_else(|status| status, |_| Status::Ok);
            let expected = if index == 3 {
                Status::NoSpace
            } else {
                Status::Ok
            };
            assert_eq!(status, expected, "{index}");
        }
        let mut found = content(&mut client, &file);
        found[3 * PIECE..4 * PIECE].copy_from_slice(&data[3 * PIECE..4 * PIECE]);
        assert!(found == data);
    });
}

#[test]
fn what_one_write_has_not_done_is_done_by_its_own() {
    let (layer, seen) = Layer::new(ram(), Seen::default());
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    seen.bytes_max.store(2 * PIECE + 100, Ordering::SeqCst);
    let writes = until_joined(&seen, |round| {
        let answers = Calls::of(&client, &file, &data(round)).make(&mut client);
        for result in results(&answers) {
            assert_eq!(result.unwrap().count as usize, PIECE);
        }
    });
    assert_eq!(writes[1], (2 * PIECE as u64, PIECE), "{writes:?}");
    assert_eq!(writes.len(), 1 + 5);
}

#[test]
fn one_that_was_sent_again_is_not_done_again() {
    let (layer, seen) = Layer::new(ram(), Seen::default());
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    for round in 0..20 {
        let data = data(round);
        let (mut lost, _) = connect(&server);
        let calls = Calls::of(&lost, &file, &data);
        let answers = calls.make(&mut lost);
        lost.reset();
        seen.writes.lock().clear();
        let (mut again, _) = connect(&server);
        assert!(calls.make(&mut again) == answers);
        assert!(seen.writes.lock().is_empty());
        // One of them was answered before the others came.
        let (mut lost, _) = connect(&server);
        let calls = Calls::of(&lost, &file, &data);
        let each = calls.bytes.len() / calls.xids.len();
        lost.send(&calls.bytes[2 * each..3 * each]);
        let third = lost.finish(calls.xids[2]);
        lost.reset();
        seen.writes.lock().clear();
        let answers = calls.make(&mut again);
        assert!(answers[2] == third);
        let offsets: Vec<_> = seen.writes.lock().iter().map(|write| write.0).collect();
        assert!(!offsets.contains(&(2 * PIECE as u64)), "{offsets:?}");
        for result in results(&answers) {
            assert_eq!(result.unwrap().count as usize, PIECE);
        }
        assert!(content(&mut client, &file) == data);
    }
}

/// A thread that may not wait panics at the third of the calls.
struct Panics;

impl Hook for Panics {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation != "write" || event.may_block {
            return Ok(());
        }
        assert!(
            event.offset != 2 * PIECE as u64,
            "expected in this test: the third call panics"
        );
        Err(Error::WouldBlock)
    }
}

#[test]
fn calls_that_wait_are_answered_although_another_one_panics() {
    let (layer, _) = Layer::new(ram(), Panics);
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    let data = data(1);
    let calls = Calls::of(&client, &file, &data[..2 * PIECE]);
    let with_third = Calls::of(&client, &file, &data);
    client.send(&[&calls.bytes[..], &with_third.bytes[calls.bytes.len()..]].concat());
    // The connection ends with the panic; two calls were under way then.
    while client.try_next_answer().is_some() {}
    let (mut again, _) = connect(&server);
    for result in results(&calls.make(&mut again)) {
        assert_eq!(result.unwrap().count as usize, PIECE);
    }
}
