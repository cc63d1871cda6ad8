//! WRITEs that are longer than any record that is taken.
//!
//! A client may write more at once than FSINFO says (RFC 1813 section 3.3.19 asks it not to), and
//! a server may write less than it was given (section 3.3.7): the client writes the rest by itself.
//! Rule: of such a WRITE the first [`WRITE_BYTES_MAX`] bytes are written, which are there, as the
//! beginning of the record was kept. The record is made the WRITE of these bytes, and then answered
//! like any other.

use pagewell_sunrpc::nfs3::{self, Procedure, WriteHead};
use pagewell_sunrpc::rpc;
use pagewell_sunrpc::xdr::Decode;

use crate::answering::WRITE_BYTES_MAX;

/// Makes the beginning of a record that was too long a WRITE of as many bytes as one may have;
/// returns its length. `None`: it is no WRITE, or not of so many bytes.
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
    // The last word of the head is the length of the data. What `count` says is bounded by it.
    record[data_at - 4..data_at].copy_from_slice(&WRITE_BYTES_MAX.to_be_bytes());
    Some(end)
}
