//! WRITEs that adjoin.
//!
//! Problem: a client that writes a file in small pieces has many WRITEs under way, and each costs
//! a look at the file before, the write, and a look after it, although the bytes of one begin where
//! those of the one before end. Rule: unstable WRITEs of one caller to one file that came with one
//! receive, stand behind one another there and in the file, are made as one write. Each is a call
//! of its own for the duplicate-request cache and has a reply of its own: the first shows the file
//! before and after the write, the others show it as it is after it, before and after. So a client
//! that follows the attributes from reply to reply sees no change but its own.
//!
//! What the write did not do, as it would wait, failed, or ended early, is done call by call, so
//! that each has its own error. Nothing is lost by having tried: the bytes are the same.
//!
//! Known weaknesses: the bytes are copied once more, to lie behind one another (some 2 % of what a
//! write costs); one call among them that was sent again makes all of them single ones. A write of
//! an image that is done in part before it would wait changes the times of the file, which the
//! replies to the single calls show as a change by another client.

use std::sync::Arc;
use std::time::Instant;

use pagewell_counters::names as counters;
use pagewell_fs as fs;
use pagewell_policy::reply_cache::Place;
use pagewell_sunrpc::nfs3::{self, Procedure, StableHow, Status, WccData, WriteArguments, WriteOk};
use pagewell_sunrpc::record;
use pagewell_sunrpc::rpc::{self, Call};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder, padded};

use crate::connection::Connection;
use crate::reply::batch::Batch;
use crate::service::call::{Answer, Done, NfsCall, Request, WaitingCall};
use crate::service::convert;
use crate::service::exports::{Caller, Served};
use crate::service::{Begun, FirstLook, Service, sent_with};

/// More are no cheaper for each.
const CALLS_MAX: usize = 32;

/// A WRITE among others, its record decoded.
struct Write<'a> {
    record: &'a [u8],
    head: Call<'a>,
    encoded: Decoder<'a>,
    arguments: WriteArguments<'a>,
}

/// WRITEs that adjoin, two or more.
pub struct Adjoining<'a> {
    writes: Vec<Write<'a>>,
    /// Bytes that their records take, with markers.
    pub length: usize,
}

impl<'a> Adjoining<'a> {
    /// Those at the beginning of `input`, of records of `record_bytes_max` at the most.
    pub fn find(input: &'a [u8], record_bytes_max: usize) -> Option<Self> {
        let next = |at: usize| {
            let (record, taken) = record::whole(input.get(at..)?)?;
            (record.len() <= record_bytes_max).then_some((record, at + taken))
        };
        let (record, mut length) = next(0).filter(|(record, _)| is_write(record))?;
        let (second, _) = next(length)?;
        let first = Write::parse(record).filter(|first| first.is_before(second))?;
        let mut writes = vec![first];
        while writes.len() < CALLS_MAX
            && let Some((record, behind)) = next(length)
            && writes.last().is_some_and(|last| last.is_before(record))
            && let Some(write) = Write::parse(record)
        {
            writes.push(write);
            length = behind;
        }
        (writes.len() > 1).then_some(Self { writes, length })
    }

    /// How many there are.
    pub fn calls(&self) -> usize {
        self.writes.len()
    }
}

impl<'a> Write<'a> {
    /// An unstable WRITE that is well formed.
    fn parse(record: &'a [u8]) -> Option<Self> {
        let (head, encoded) = rpc::parse_call(record).ok()?;
        let mut rest = encoded;
        let arguments = WriteArguments::decode(&mut rest).ok()?;
        rest.finish().ok()?;
        let is_plain = arguments.stable == StableHow::Unstable
            && arguments.count as usize == arguments.data.len();
        is_plain.then_some(Self {
            record,
            head,
            encoded,
            arguments,
        })
    }

    /// Whether `record` is a call of the same procedure, caller and file, and goes on where this
    /// one ends. Equal heads are equal bytes, and the arguments end with offset, count, stability
    /// and data, so nothing of it need be decoded.
    fn is_before(&self, record: &[u8]) -> bool {
        let WriteArguments { offset, data, .. } = self.arguments;
        let behind = 8 + 4 + 4 + 4 + padded(data.len());
        let offset_at = self.record.len().saturating_sub(behind);
        let head = CONSTANT_FROM..offset_at;
        let end = offset.wrapping_add(data.len() as u64).to_be_bytes();
        record.get(head.clone()) == self.record.get(head)
            && record.get(offset_at..offset_at + end.len()) == Some(&end)
    }
}

/// Where what does not change from call to call begins, behind xid and message type (RFC 5531
/// section 9).
const CONSTANT_FROM: usize = 8;

/// Goes by program, version and procedure, behind the version of RPC.
fn is_write(record: &[u8]) -> bool {
    let words = record.get(12..24).unwrap_or_default().as_chunks().0;
    let wanted = [nfs3::PROGRAM, nfs3::VERSION, Procedure::Write.number()];
    words.iter().copied().map(u32::from_be_bytes).eq(wanted)
}

impl Service {
    /// Answers WRITEs that adjoin. A call that has to wait is given to `wait` before the next one
    /// is made. `last` is the number of the last one among the calls of the connection.
    pub fn answer_adjoining<'a>(
        &self,
        adjoining: &Adjoining<'a>,
        (connection, received_at, last): (&Arc<Connection>, Instant, u64),
        batch: &mut Batch,
        mut wait: impl FnMut(&[u8], WaitingCall),
    ) {
        let before = last - adjoining.writes.len() as u64;
        let call_of = |(number, write): (u64, &Write<'a>)| NfsCall {
            request: Request {
                record: write.record,
                connection,
                received_at,
                began_at: None,
                place: Place {
                    number,
                    overlaps: true,
                },
            },
            head: write.head,
            procedure: Procedure::Write,
            arguments: write.encoded,
        };
        let numbered = (before + 1..).zip(&adjoining.writes);
        let calls: Vec<_> = numbered.map(call_of).collect();
        let begun: Vec<_> = calls.iter().map(|call| self.begin(call, batch)).collect();
        let is_new = |look: &FirstLook<'_>| matches!(look, FirstLook::Begin(_));
        let all_are_new = begun.iter().all(is_new);
        let results = if all_are_new {
            self.write_together(&adjoining.writes, connection)
        } else {
            None
        };
        let mut results = results.unwrap_or_default().into_iter();
        let served = self.exports.now();
        for (call, begun) in calls.iter().zip(begun) {
            let result = results.next();
            let answer = match (begun, result) {
                (FirstLook::Said, _) => Answer::Done,
                (FirstLook::Undecided(state), _) => Answer::Wait(state),
                (FirstLook::Begin(begun), Some(results)) => {
                    answer_written(&served, (call, begun), &results, batch)
                }
                (FirstLook::Begin(begun), None) => self.write_now((call, &served), begun, batch),
            };
            match answer {
                Answer::Done => counters::CALLS_INLINE.add(1),
                Answer::Wait(state) => wait(call.request.record, state),
            }
        }
    }

    /// Makes one write of all. Returns the results of the calls that it did whole; nothing when it
    /// failed.
    fn write_together(
        &self,
        writes: &[Write<'_>],
        connection: &Arc<Connection>,
    ) -> Option<Vec<WriteOk>> {
        let [first, ..] = writes else { return None };
        let served = self.exports.now();
        let caller = Caller::new(&served, &first.head, connection.peer, false);
        let target = caller.target_to_change(first.arguments.file).ok()?;
        let filesystem = target.filesystem();
        let pieces: Vec<_> = writes.iter().map(|write| write.arguments.data).collect();
        let data = pieces.concat();
        let offset = first.arguments.offset;
        let end = offset.checked_add(data.len() as u64)?;
        if end > filesystem.limits().file_bytes_max {
            return None;
        }
        counters::COPIED_BYTES.add(data.len() as u64);
        let (call, stability) = (target.call(), fs::Stability::Unstable);
        let written = filesystem.write(&call, &target.id, offset, &data, stability);
        let written = written.ok()?;
        let mut file_wcc = target.export.identity.change(&written.change);
        let mut left = written.count;
        let mut results = Vec::with_capacity(writes.len());
        for count in writes.iter().map(|write| write.arguments.count) {
            let Some(rest) = left.checked_sub(count) else {
                break;
            };
            left = rest;
            results.push(WriteOk {
                file_wcc,
                count,
                committed: convert::stable_how(written.committed),
                verifier: written.verifier,
            });
            file_wcc = unchanged(&file_wcc);
        }
        let others = results.len().saturating_sub(1);
        counters::WRITES_JOINED.add(others as u64);
        Some(results)
    }
}

/// A file that is as it was after `change`.
fn unchanged(change: &WccData) -> WccData {
    let before = change.after.map(|after| after.wcc());
    WccData { before, ..*change }
}

/// Answers a call that another one's write has done.
fn answer_written(
    served: &Served,
    (call, begun): (&NfsCall<'_>, Begun<'_>),
    results: &WriteOk,
    batch: &mut Batch,
) -> Answer {
    let mark = batch.mark();
    let answer = call.reply(served, batch, |batch, _| {
        let encoder = &mut Encoder::new(batch.bytes());
        Status::Ok.encode(encoder);
        results.encode(encoder);
        Ok(Done::default())
    });
    begun.finish(batch.body(mark), sent_with(&call.request, batch));
    answer
}

#[cfg(test)]
mod tests {
    use pagewell_sunrpc::nfs3::Handle;
    use pagewell_sunrpc::record::LAST_FRAGMENT;
    use pagewell_sunrpc::rpc::Credential;

    use super::*;

    fn write(xid: u32, offset: u64) -> Vec<u8> {
        let call = Call {
            xid,
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: Procedure::Write.number(),
            credential: Credential::None,
        };
        let arguments = WriteArguments {
            file: Handle::new(b"a file").unwrap(),
            offset,
            count: 10,
            stable: StableHow::Unstable,
            data: b"ten bytes.",
        };
        let mut body = Vec::new();
        rpc::encode_call(&mut Encoder::new(&mut body), &call);
        arguments.encode(&mut Encoder::new(&mut body));
        let marker = u32::try_from(body.len()).unwrap() | LAST_FRAGMENT;
        [&marker.to_be_bytes()[..], &body].concat()
    }

    fn found(input: &[u8]) -> Option<(usize, usize)> {
        let found = Adjoining::find(input, 1000)?;
        Some((found.calls(), found.length))
    }

    #[test]
    fn writes_that_go_on_are_found_and_no_others() {
        let three = [write(1, 5), write(2, 15), write(3, 25)].concat();
        assert_eq!(found(&three), Some((3, three.len())));
        let two = [write(1, 5), write(2, 15)].concat();
        assert_eq!(
            found(&[&two[..], &write(3, 26)].concat()),
            Some((2, two.len()))
        );
        assert_eq!(found(&[write(1, 5), write(2, 5)].concat()), None);
        // Offsets that wrap are found, and refused when they are written.
        assert_eq!(
            found(&[write(1, u64::MAX - 4), write(2, 5)].concat()),
            Some((2, two.len()))
        );
        assert!(Adjoining::find(&two, 50).is_none());
    }

    #[test]
    fn whatever_is_changed_in_records_or_cut_off_is_no_trouble() {
        let two = [write(1, 5), write(2, 15)].concat();
        let each = two.len() / 2;
        for length in 0..two.len() {
            assert_eq!(found(&two[..length]), None, "{length} bytes");
        }
        // Of the second record: all but its identifier and its data.
        let decisive = (each..each + 4).chain(each + 8..two.len() - 12);
        for (at, change) in decisive.flat_map(|at| [1, 0x80, 0xff].map(|change| (at, change))) {
            let mut changed = two.clone();
            changed[at] ^= change;
            assert_eq!(found(&changed), None, "byte {at}, {change:#x}");
        }
        for at in 0..each {
            let mut changed = two.clone();
            changed[at] ^= 0xff;
            assert!(found(&changed).is_none_or(|(_, length)| length <= two.len()));
        }
    }
}
