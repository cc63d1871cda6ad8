//! MOUNT version 3 (RFC 1813 appendix I): all six procedures, on the same port as NFS.

use std::collections::VecDeque;
use std::net::IpAddr;

use pagewell_base::sync::Mutex;
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
use crate::service::call::{Answer, Request, WaitingCall, refuse};
use crate::service::exports::{Caller, PATH_DEPTH_MAX, Served, Stop, components};
use crate::service::handle::WireHandle;
use crate::service::pseudo_tree::PseudoTree;
use crate::statistics::{self, Answered};

/// AUTH_SYS, then AUTH_NONE (RFC 5531 section 8.2): Linux takes the first it can use.
const FLAVORS: [u32; 2] = [1, 0];

/// Mounts that are remembered.
const MOUNTS_MAX: usize = 1024;

/// The program, with what it remembers: which client has mounted what (MOUNTPROC3_DUMP). That is
/// for people to look at only. Clients that crash never unmount, so the list is bounded and the
/// oldest goes first.
#[derive(Default)]
pub struct MountProgram {
    mounts: Mutex<VecDeque<(IpAddr, Vec<u8>)>>,
}

impl MountProgram {
    /// Answers a call, unless it would have to wait and may not.
    pub(super) fn answer(
        &self,
        served: &Served,
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
        match self.run(served, procedure, arguments, &caller, batch.bytes()) {
            Ok(failed) => {
                let sent = batch.end(mark);
                let answered = Answered {
                    failed,
                    received: request.record.len(),
                    sent,
                    latency: request.received_at.elapsed(),
                };
                statistics::MOUNT.record(procedure.number(), &answered);
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
    fn run(
        &self,
        served: &Served,
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
                let handle = self.mounted(served, caller, path()?)?;
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
                for (peer, path) in self.list() {
                    if !shows(served, caller, &path) {
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
                self.remove(caller.peer, Some(&path));
            }
            Procedure::UmntAll => self.remove(caller.peer, None),
            Procedure::Export => encode_exports(served, caller, encoder),
        }
        Ok(false)
    }

    /// The handle of a path: an export, or a directory below one or above one.
    fn mounted(
        &self,
        served: &Served,
        caller: &Caller,
        path: &[u8],
    ) -> Result<Result<WireHandle, Status>, Stop> {
        let Some((export, rest)) = served.export_of(path) else {
            return Ok(Err(Status::NotFound));
        };
        let mut target = match served.root_in(caller, export) {
            Ok(target) => target,
            Err(fs::Error::WouldBlock) => return Err(Stop::WouldBlock),
            Err(error) => return Ok(Err(mount_status(&error))),
        };
        for name in rest.iter().take(PATH_DEPTH_MAX) {
            let (export, entry) = match served.find(caller, &target, name) {
                Ok(found) => found,
                Err(fs::Error::WouldBlock) => return Err(Stop::WouldBlock),
                Err(error) => return Ok(Err(mount_status(&error))),
            };
            if !entry.attributes.file_type.is_directory() {
                return Ok(Err(Status::NotDirectory));
            }
            match served.target_in(caller, export, entry.id) {
                Some(found) => target = found,
                None => return Ok(Err(Status::AccessDenied)),
            }
        }
        self.add(caller.peer, &normal_path(&components(path)));
        Ok(Ok(served.handle(target.export, &target.id)))
    }

    /// Notes a mount.
    fn add(&self, peer: IpAddr, path: &[u8]) {
        let mut entries = self.mounts.lock();
        if entries
            .iter()
            .any(|(address, name)| *address == peer && name == path)
        {
            return;
        }
        if entries.len() == MOUNTS_MAX {
            entries.pop_front();
        }
        entries.push_back((peer, path.to_owned()));
    }

    /// Forgets one mount of `peer`, or all of them.
    fn remove(&self, peer: IpAddr, path: Option<&[u8]>) {
        self.mounts
            .lock()
            .retain(|(address, name)| *address != peer || path.is_some_and(|path| path != name));
    }

    /// All of them.
    fn list(&self) -> Vec<(IpAddr, Vec<u8>)> {
        self.mounts.lock().iter().cloned().collect()
    }
}

/// Whether a client is shown mounts of `path`: those of exports that it may use itself.
fn shows(served: &Served, caller: &Caller, path: &[u8]) -> bool {
    served.export_of(path).is_some_and(|(export, names)| {
        export.config.allows(caller.peer)
            && served
                .pseudo_tree(export, caller.peer)
                .is_none_or(|seen| seen.contains(&PseudoTree::id_of(&names)))
    })
}

/// The exports that the client may use.
fn encode_exports(served: &Served, caller: &Caller, encoder: &mut Encoder<'_>) {
    for export in served.allowed(caller.peer) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_entries_go() {
        let mounts = MountProgram::default();
        let peer = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..2000 {
            mounts.add(peer(number), b"/a");
        }
        assert_eq!(mounts.list().len(), MOUNTS_MAX);
        mounts.add(peer(1999), b"/a");
        mounts.add(peer(1999), b"/b");
        mounts.remove(peer(1999), Some(b"/a"));
        assert_eq!(mounts.list().last(), Some(&(peer(1999), b"/b".to_vec())));
        mounts.remove(peer(1999), None);
        assert_eq!(mounts.list().len(), MOUNTS_MAX - 2);
    }
}
