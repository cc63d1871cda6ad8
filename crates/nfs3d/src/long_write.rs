//! WRITEs longer than any accepted record.
//!
//! A client may exceed FSINFO's limit (RFC 1813 section 3.3.19 asks it not to), and a server may
//! write less than it got (section 3.3.7); the client then sends the rest. The kept beginning of
//! such a record becomes a WRITE of its first [`WRITE_BYTES_MAX`] bytes.

use pagewell_sunrpc::nfs3::{self, Procedure, WriteHead};
use pagewell_sunrpc::rpc;
use pagewell_sunrpc::xdr::Decode;

use crate::handler::WRITE_BYTES_MAX;

/// Turns the beginning of a record into a WRITE of the most bytes; returns its length. `None`: it
/// is no such WRITE.
pub fn shorten(record: &mut [u8]) -> Option<usize> {
    let (call, mut arguments) = rpc::parse_call(record).ok()?;
    let is_nfs = (call.program, call.version) == (nfs3::PROGRAM, nfs3::VERSION);
    if !is_nfs || call.procedure != Procedure::Write.number() {
        return None;
    }
    let head = WriteHead::decode(&mut arguments).ok()?;
    let data_at = record.len() - arguments.remaining();
    let end = data_at + WRITE_BYTES_MAX as usize;
    if head.data_length <= WRITE_BYTES_MAX || end > record.len() {
        return None;
    }
    // The last word of the head is the data's length, which bounds `count`.
    record[data_at - 4..data_at].copy_from_slice(&WRITE_BYTES_MAX.to_be_bytes());
    Some(end)
}
