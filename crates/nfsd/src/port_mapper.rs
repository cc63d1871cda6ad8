//! The port mapper, version 2 (RFC 1833 section 3), for this server only.
//!
//! Some clients know one port and ask it for those of NFS and MOUNT, which are the same one. As in
//! rpcbind, versions do not matter here: the program refuses those that it lacks. Nothing can be
//! set or unset, and there is no CALLIT.

use std::net::SocketAddr;

use pagewell_sunrpc::portmap::{Mapping, PROGRAM, PROTOCOL_TCP, Procedure, VERSION};
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encoder, encode_item, encode_list_end};
use pagewell_sunrpc::{mount3, nfs3, nlm4, nsm};

use pagewell_nfs3d::duplicate::Pending;
use pagewell_rpcd::call::{Answer, decode, refuse};
use pagewell_rpcd::connection::Connection;
use pagewell_rpcd::reply::Batch;

/// Served programs and versions.
const SERVED: [(u32, u32); 7] = [
    (PROGRAM, VERSION),
    (nfs3::PROGRAM, nfs3::VERSION),
    (mount3::PROGRAM, mount3::FIRST_VERSION),
    (mount3::PROGRAM, mount3::FIRST_VERSION + 1),
    (mount3::PROGRAM, mount3::VERSION),
    (nlm4::PROGRAM, nlm4::VERSION),
    (nsm::PROGRAM, nsm::VERSION),
];

/// Answers a call on a connection.
pub(crate) fn answer(
    connection: &Connection,
    call: &Call<'_>,
    arguments: Decoder<'_>,
    batch: &mut Batch,
) -> Answer<Pending> {
    let mark = batch.begin();
    let encoder = &mut Encoder::new(batch.bytes());
    rpc::encode_success(encoder, call.xid);
    if let Err(refusal) = run(connection, call, arguments, encoder) {
        batch.roll_back(mark);
        return refuse(batch, call.xid, refusal);
    }
    batch.end(mark);
    Answer::Done
}

/// Appends the results.
fn run(
    connection: &Connection,
    call: &Call<'_>,
    arguments: Decoder<'_>,
    encoder: &mut Encoder<'_>,
) -> Result<(), Refusal> {
    if call.version != VERSION {
        return Err(Refusal::ProgramMismatch {
            low: VERSION,
            high: VERSION,
        });
    }
    let Some(procedure) = Procedure::from_number(call.procedure) else {
        return Err(Refusal::ProcedureUnavailable);
    };
    match procedure {
        Procedure::Null => {}
        Procedure::Set | Procedure::Unset => {
            let _: Mapping = decode(arguments)?;
            encoder.bool(false);
        }
        Procedure::Getport => {
            let wanted: Mapping = decode(arguments)?;
            let is_served = SERVED.iter().any(|(program, _)| *program == wanted.program);
            let has_port = is_served && wanted.protocol == PROTOCOL_TCP;
            encoder.u32(if has_port { port(connection)? } else { 0 });
        }
        Procedure::Dump => {
            let port = port(connection)?;
            for (program, version) in SERVED {
                let mapping = Mapping {
                    program,
                    version,
                    protocol: PROTOCOL_TCP,
                    port,
                };
                encode_item(encoder, &mapping);
            }
            encode_list_end(encoder);
        }
    }
    Ok(())
}

/// The port that the client has connected to.
fn port(connection: &Connection) -> Result<u32, Refusal> {
    let address = rustix::net::getsockname(connection).ok();
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    address
        .map(|address| u32::from(address.port()))
        .ok_or(Refusal::SystemError)
}
