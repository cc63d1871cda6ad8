//! MOUNT version 3 (RFC 1813 appendix I), on the port of NFS.
//!
//! Clients use versions 1 and 2 (RFC 1094 appendix A) beside it, mostly to unmount and list. These
//! have the same procedures, except MNT, whose NFSv2 handles are not served: without a fitting
//! status, it gets PROC_UNAVAIL.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::net::IpAddr;

use pagewell_base::sync::Mutex;
use pagewell_fs as fs;
use pagewell_sunrpc::mount3::{
    self, ExportEntry, Group, MountEntry, MountOk, MountReply, PathArguments, Procedure, Status,
};
use pagewell_sunrpc::nfs3::{self, Handle};
use pagewell_sunrpc::rpc::{Call, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encode, Encoder, List, Words, encode_item, encode_list_end};

use crate::convert;
use crate::duplicate::Pending;
use crate::observed::STATUS_AT;
use crate::statistics::MOUNT;
use pagewell_export::exports::{Caller, Served, components};
use pagewell_export::handles::WireHandle;
use pagewell_export::pseudo_tree::PseudoTree;
use pagewell_export::shown::{About, OtherCall, text_of};
use pagewell_rpcd::call::{Answer, Class, Done, Request, Unanswered, answer_with, decode, refuse};
use pagewell_rpcd::reply::Batch;
use pagewell_rpcd::slow::{Subject, Subjects};

/// The accept status in a reply.
const ACCEPTED_AT: usize = STATUS_AT - 4;

/// AUTH_SYS, then AUTH_NONE (RFC 5531 section 8.2): Linux takes the first it can use.
const FLAVORS: [u32; 2] = [1, 0];

/// Remembered mounts.
const MOUNTS_MAX: usize = 1024;

/// The program and its list of mounts (MOUNTPROC3_DUMP), which only informs people. Crashed clients
/// never unmount, so it is bounded, oldest out first.
#[derive(Default)]
pub struct MountProgram {
    mounts: Mutex<VecDeque<(IpAddr, Vec<u8>)>>,
}

impl MountProgram {
    /// Answers a call, unless it would block and may not.
    pub fn answer(
        &self,
        request: &Request<'_>,
        call: &Call<'_>,
        arguments: Decoder<'_>,
        caller: &Caller<'_>,
        batch: &mut Batch,
    ) -> Answer<Pending> {
        let procedure = Procedure::from_number(call.procedure);
        let named = procedure.as_ref().map(|procedure| procedure as &dyn Debug);
        let shown = OtherCall::begin(named, (call, caller.peer), request.received_at);
        let Some(shown) = shown else {
            return self.reply(request, call, arguments, caller, batch);
        };
        let about = match procedure {
            Some(Procedure::Mnt | Procedure::Umnt) => path_of(caller.served, arguments),
            _ => About::default(),
        };
        shown.is_about(&about);
        let mark = batch.mark();
        let answer = shown.work(|| self.reply(request, call, arguments, caller, batch));
        if matches!(answer, Answer::Done) {
            let has_status = procedure == Some(Procedure::Mnt);
            shown.end(&about, mount_result(batch.body(mark), has_status));
        }
        answer
    }

    fn reply(
        &self,
        request: &Request<'_>,
        call: &Call<'_>,
        arguments: Decoder<'_>,
        caller: &Caller<'_>,
        batch: &mut Batch,
    ) -> Answer<Pending> {
        let procedure = Procedure::from_number(call.procedure);
        let is_served =
            |procedure: &Procedure| call.version == mount3::VERSION || *procedure != Procedure::Mnt;
        let Some(procedure) = procedure.filter(is_served) else {
            return refuse(batch, call.xid, Refusal::ProcedureUnavailable);
        };
        let answer = answer_with((request, call), &MOUNT, batch, |batch, _| {
            let encoder = &mut Encoder::new(batch.bytes());
            let failed = self.run(procedure, arguments, caller, encoder)?;
            Ok(Done {
                failed,
                sent_bytes: None,
            })
        });
        match answer {
            Answer::Done => Answer::Done,
            Answer::Wait(class, pending) => {
                let subjects = subjects(caller.served, arguments);
                Answer::Wait(Class { subjects, ..class }, pending)
            }
        }
    }

    /// Appends the result; returns whether it failed.
    fn run(
        &self,
        procedure: Procedure,
        arguments: Decoder<'_>,
        caller: &Caller<'_>,
        encoder: &mut Encoder<'_>,
    ) -> Result<bool, Unanswered> {
        let peer = caller.peer.ip();
        match procedure {
            Procedure::Null => {}
            Procedure::Mnt => {
                let PathArguments { path } = decode(arguments)?;
                let handle = match self.mounted(caller, path) {
                    Err(fs::Error::WouldBlock) => return Err(Unanswered::WouldBlock),
                    mounted => mounted.map_err(|error| mount_status(&error)),
                };
                let reply: MountReply<'_> = match &handle {
                    Ok(handle) => Handle::new(handle.as_bytes())
                        .ok_or(Status::ServerFault)
                        .map(|handle| MountOk {
                            handle,
                            flavors: Words::new(&FLAVORS).unwrap_or_default(),
                        }),
                    Err(status) => Err(*status),
                };
                reply.encode(encoder);
                return Ok(reply.is_err());
            }
            Procedure::Dump => {
                for (peer, path) in self.list() {
                    if !shows(caller, &path) {
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
                let PathArguments { path } = decode(arguments)?;
                self.remove(peer, Some(&normal_path(path)));
            }
            Procedure::UmntAll => self.remove(peer, None),
            Procedure::Export => encode_exports(caller, encoder),
        }
        Ok(false)
    }

    /// The handle of a path: an export, or a directory below or above one.
    fn mounted(&self, caller: &Caller<'_>, path: &[u8]) -> fs::Result<WireHandle> {
        let found = caller.served.export_of(path);
        let (export, rest) = found.ok_or(fs::Error::NotFound)?;
        let mut target = caller.root_in(export)?;
        for name in rest {
            let (export, entry) = caller.find(&target, name)?;
            if !entry.attributes.file_type.is_directory() {
                return Err(fs::Error::NotDirectory);
            }
            target = caller.target_in(export, entry.id)?;
        }
        self.add(caller.peer.ip(), &normal_path(path));
        Ok(caller.served.handle(target.export, &target.id))
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

    /// Forgets one mount of `peer`, or all.
    fn remove(&self, peer: IpAddr, path: Option<&[u8]>) {
        self.mounts
            .lock()
            .retain(|(address, name)| *address != peer || path.is_some_and(|path| path != name));
    }

    /// All mounts.
    fn list(&self) -> Vec<(IpAddr, Vec<u8>)> {
        self.mounts.lock().iter().cloned().collect()
    }
}

/// The path of a MOUNT call and its export, for the log.
fn path_of(served: &Served, arguments: Decoder<'_>) -> About {
    let Ok(PathArguments { path }) = decode(arguments) else {
        return About::default();
    };
    let export = served.export_of(path);
    About {
        export: export.map_or(String::new(), |(export, _)| export.config.name.clone()),
        object: text_of(path),
    }
}

/// The result of a reply; MOUNT shares NFS's error numbers (RFC 1813 appendix I).
fn mount_result(reply: &[u8], has_status: bool) -> &'static str {
    let word = |at: usize| {
        let bytes = reply.get(at..).and_then(<[u8]>::first_chunk::<4>);
        bytes.map(|bytes| u32::from_be_bytes(*bytes))
    };
    match (word(ACCEPTED_AT), word(STATUS_AT)) {
        (Some(0), Some(status)) if has_status => {
            nfs3::Status::from_number(status).map_or("failed", nfs3::Status::name)
        }
        (Some(0), _) => "ok",
        _ => "refused",
    }
}

/// What a call with a path may wait for.
fn subjects(served: &Served, arguments: Decoder<'_>) -> Subjects {
    let path = decode::<PathArguments<'_>>(arguments);
    let found = path.ok().and_then(|path| served.export_of(path.path));
    let subject = found.map(|(export, _)| Subject {
        object: None,
        export: export.number(),
    });
    subject.into_iter().collect()
}

/// Whether a client sees mounts of `path`: it may use the export.
fn shows(caller: &Caller<'_>, path: &[u8]) -> bool {
    let (served, peer) = (caller.served, caller.peer.ip());
    served.export_of(path).is_some_and(|(export, names)| {
        let seen = served.pseudo_tree(export, peer);
        export.config.allows(peer)
            && seen.is_none_or(|seen| seen.contains(&PseudoTree::id_of(&names)))
    })
}

/// The exports that the client may use.
fn encode_exports(caller: &Caller<'_>, encoder: &mut Encoder<'_>) {
    for export in caller.served.allowed(caller.peer.ip()) {
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

/// The normal form of a path.
fn normal_path(path: &[u8]) -> Vec<u8> {
    [&b"/"[..], &components(path).join(&b'/')].concat()
}

/// MOUNT has a part of NFS's statuses (RFC 1813 section 5.1.5).
fn mount_status(error: &fs::Error) -> Status {
    match convert::status(error) {
        Status::Stale => Status::Io,
        status @ (Status::NotPermitted
        | Status::NotFound
        | Status::Io
        | Status::AccessDenied
        | Status::NotDirectory
        | Status::Invalid
        | Status::NameTooLong) => status,
        _ => Status::ServerFault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_replies() {
        let reply = |accepted: u32, status: u32| {
            let head = [0; ACCEPTED_AT];
            [&head[..], &accepted.to_be_bytes(), &status.to_be_bytes()].concat()
        };
        assert_eq!(mount_result(&reply(0, 0), true), "ok");
        assert_eq!(mount_result(&reply(0, 13), true), "acces");
        assert_eq!(mount_result(&reply(0, 13), false), "ok");
        assert_eq!(mount_result(&reply(3, 0), true), "refused");
        assert_eq!(mount_result(&[], true), "refused");
    }

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
