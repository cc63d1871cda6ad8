//! Records that have not arrived as a whole: for which export they are, and refusing them.

use std::net::IpAddr;

use pagewell_counters::names as counters;
use pagewell_sunrpc::nfs3::{self, Procedure};
use pagewell_sunrpc::rpc::{self, Refusal};
use pagewell_sunrpc::xdr::Encoder;

use crate::reply::batch::Batch;
use crate::service::{Service, push_jukebox, refuse};

impl Service {
    /// The export whose object a call is for, if its beginning tells and `peer` may use it.
    #[must_use]
    pub fn export_of_record(&self, beginning: &[u8], peer: IpAddr) -> Option<u32> {
        let (call, mut arguments) = rpc::parse_call(beginning).ok()?;
        if call.program != nfs3::PROGRAM {
            return None;
        }
        let handle = arguments.opaque(nfs3::HANDLE_BYTES_MAX).ok()?;
        let (number, _) = self.handle_key.decode(handle).ok()?;
        let mut exports = self.exports.iter();
        let export = exports.find(|export| export.number() == number)?;
        export.config.allows(peer).then_some(number)
    }

    /// Whether storage holds calls of an export for too long.
    #[must_use]
    pub fn storage_holds(&self, export: u32) -> bool {
        self.slow.holds(export)
    }

    /// Refuses a record of which only the beginning was kept, because it is too long.
    pub fn refuse_oversized(&self, beginning: &[u8], batch: &mut Batch) {
        match rpc::parse_call(beginning) {
            Ok((call, _)) => {
                refuse(batch, call.xid, Refusal::GarbageArguments);
            }
            Err(error) => {
                let mark = batch.begin();
                if error.encode_reply(&mut Encoder::new(batch.bytes())) {
                    batch.end(mark);
                } else {
                    batch.roll_back(mark);
                }
            }
        }
    }

    /// Has the client ask again later, because storage holds as much of its export as may be.
    pub fn put_off(&self, beginning: &[u8], batch: &mut Batch) {
        let parsed = rpc::parse_call(beginning);
        let named = parsed.map(|(call, _)| (call.xid, Procedure::from_number(call.procedure)));
        if let Ok((xid, Some(procedure))) = named {
            counters::RECORDS_PUT_OFF.add(1);
            push_jukebox(batch, xid, procedure);
        }
    }
}
