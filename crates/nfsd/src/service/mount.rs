//! MOUNT version 3 (RFC 1813 appendix I): all six procedures, on the same port as NFS.

use std::net::IpAddr;

use pagewell_fs as fs;
use pagewell_sunrpc::mount3::{
    ExportEntry, Group, MountEntry, MountOk, MountReply, PathArguments, Procedure, Status,
};
use pagewell_sunrpc::nfs3::Handle;
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::{
    Decode, Decoder, Encode, Encoder, List, Words, encode_item, encode_list_end,
};

use crate::reply::batch::Batch;
use crate::service::handle::WireHandle;
use crate::service::procedure::{Caller, Stop};
use crate::service::{Answer, Request, ServedExport, Service, WaitingCall, refuse};
use crate::statistics;

/// AUTH_SYS, then AUTH_NONE (RFC 5531 section 8.2): Linux takes the first it can use.
const FLAVORS: [u32; 2] = [1, 0];

/// Directories below an export that a mount may name, one after the other.
const PATH_DEPTH_MAX: usize = 128;

impl Service {
    pub(super) fn mount(
        &self,
        request: &Request<'_>,
        call: &Call<'_>,
        arguments: Decoder<'_>,
        may_block: bool,
        batch: &mut Batch,
    ) -> Answer {
        let Some(procedure) = Procedure::from_number(call.procedure) else {
            return refuse(batch, call.xid, Refusal::ProcedureUnavailable);
        };
        let caller = Caller::new(call, request.connection, may_block);
        let mark = batch.begin();
        rpc::encode_success(&mut Encoder::new(batch.bytes()), call.xid);
        match self.run_mount(procedure, arguments, &caller, batch.bytes()) {
            Ok(failed) => {
                let sent = batch.end(mark);
                let statistics = &statistics::MOUNT[procedure.number() as usize];
                let took = request.received_at.elapsed();
                statistics.record(failed, request.record.len(), sent, took);
                Answer::Done
            }
            Err(stop) => {
                batch.roll_back(mark);
                if stop == Stop::WouldBlock {
                    return Answer::Wait(WaitingCall::default());
                }
                refuse(batch, call.xid, Refusal::GarbageArguments)
            }
        }
    }

    /// Appends the result; returns whether its status is not OK.
    fn run_mount(
        &self,
        procedure: Procedure,
        mut arguments: Decoder<'_>,
        caller: &Caller,
        bytes: &mut Vec<u8>,
    ) -> Result<bool, Stop> {
        let mut path = || -> Result<&[u8], Stop> {
            let decoded = PathArguments::decode(&mut arguments).map_err(|_| Stop::Garbage)?;
            arguments.finish().map_err(|_| Stop::Garbage)?;
            Ok(decoded.path)
        };
        let encoder = &mut Encoder::new(bytes);
        match procedure {
            Procedure::Null => {}
            Procedure::Mnt => {
                let handle = self.mounted(caller, path()?)?;
                let reply: MountReply<'_> = match &handle {
                    Ok(handle) => Handle::new(handle.as_bytes())
                        .ok_or(Status::ServerFault)
                        .map(|handle| MountOk {
                            handle,
                            flavors: flavors(),
                        }),
                    Err(status) => Err(*status),
                };
                reply.encode(encoder);
                return Ok(reply.is_err());
            }
            Procedure::Dump => {
                for (peer, path) in self.mounts.list() {
                    if !self.shows(caller, &path) {
                        continue;
                    }
                    let host = peer.to_string();
                    let entry = MountEntry {
                        host: host.as_bytes(),
                        path: &path,
                    };
                    encode_item(encoder, &entry);
                }
                encode_list_end(encoder);
            }
            Procedure::Umnt => {
                let path = normal_path(&components(path()?));
                self.mounts.remove(caller.peer, Some(&path));
            }
            Procedure::UmntAll => self.mounts.remove(caller.peer, None),
            Procedure::Export => self.encode_exports(caller, encoder),
        }
        Ok(false)
    }

    /// Whether any export allows a client at `address`.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let mut exports = self.exports.iter();
        exports.any(|export| export.config.allows(address))
    }

    /// Whether a client is told of mounts of `path`: those of exports that it may use itself.
    fn shows(&self, caller: &Caller, path: &[u8]) -> bool {
        self.export_of(path).is_some_and(|(export, names)| {
            export.config.allows(caller.peer)
                && self
                    .signposts(export, caller.peer)
                    .is_none_or(|seen| seen.contains(&fs::Signposts::id_of(&names)))
        })
    }

    /// The exports that the client may use.
    fn encode_exports(&self, caller: &Caller, encoder: &mut Encoder<'_>) {
        let all = self.exports.iter();
        for export in all.filter(|export| export.config.allows(caller.peer)) {
            let mut names = Vec::new();
            for network in export.config.networks() {
                let name = network.to_string();
                let name = name.as_bytes();
                encode_item(&mut Encoder::new(&mut names), &Group { name });
            }
            let groups = List::from_items(&names).unwrap_or(List::empty());
            encode_item(
                encoder,
                &ExportEntry {
                    path: export.config.name.as_bytes(),
                    groups,
                },
            );
        }
        encode_list_end(encoder);
    }

    /// The handle of a path: an export, or a directory below one or above one.
    fn mounted(&self, caller: &Caller, path: &[u8]) -> Result<Result<WireHandle, Status>, Stop> {
        let Some((export, rest)) = self.export_of(path) else {
            return Ok(Err(Status::NotFound));
        };
        let Some(mut target) = self.target_in(caller, export, self.root_of(export)) else {
            return Ok(Err(Status::AccessDenied));
        };
        for name in rest.iter().take(PATH_DEPTH_MAX) {
            let (export, entry) = match self.find(caller, &target, name) {
                Ok(found) => found,
                Err(fs::Error::WouldBlock) => return Err(Stop::WouldBlock),
                Err(error) => return Ok(Err(mount_status(&error))),
            };
            if !entry.attributes.file_type.is_directory() {
                return Ok(Err(Status::NotDirectory));
            }
            match self.target_in(caller, export, entry.id) {
                Some(found) => target = found,
                None => return Ok(Err(Status::AccessDenied)),
            }
        }
        self.mounts
            .add(caller.peer, &normal_path(&components(path)));
        Ok(Ok(self.handle(target.export, &target.id)))
    }

    /// The export with the longest name that `path` begins with, and the names after it.
    fn export_of<'p>(&self, path: &'p [u8]) -> Option<(&ServedExport, Vec<&'p [u8]>)> {
        let wanted = components(path);
        let begins = |export: &&ServedExport| {
            let name = components(export.config.name.as_bytes());
            wanted.starts_with(&name)
        };
        let length = |export: &&ServedExport| components(export.config.name.as_bytes()).len();
        let export = self.served().filter(begins).max_by_key(length)?;
        let below = wanted.get(length(&export)..)?.to_vec();
        (below.len() <= PATH_DEPTH_MAX).then_some((export, below))
    }
}

/// The names in a path; empty ones and `.` mean nothing.
pub(super) fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
        .collect()
}

/// A path written in one way, for the list of mounts.
fn normal_path(names: &[&[u8]]) -> Vec<u8> {
    [&b"/"[..], &names.join(&b'/')].concat()
}

fn flavors() -> Words<{ pagewell_sunrpc::mount3::FLAVORS_MAX }> {
    Words::new(&FLAVORS).unwrap_or_default()
}

fn mount_status(error: &fs::Error) -> Status {
    match error {
        fs::Error::NotPermitted => Status::NotPermitted,
        fs::Error::NotFound => Status::NotFound,
        fs::Error::Io(_) | fs::Error::Stale => Status::Io,
        fs::Error::AccessDenied => Status::AccessDenied,
        fs::Error::NotDirectory => Status::NotDirectory,
        fs::Error::Invalid => Status::Invalid,
        fs::Error::NameTooLong => Status::NameTooLong,
        _ => Status::ServerFault,
    }
}
