//! The answers of a bare server.

use std::os::unix::fs::FileExt;

use pagewell_sunrpc::mount3;
use pagewell_sunrpc::nfs3::{
    self, CommitArguments, CommitOk, CommitReply, CreateArguments, CreateHow, CreateOk,
    CreateReply, DirectoryOperation, Failure, GetattrReply, Handle, LookupOk, LookupReply,
    Procedure, ReadArguments, ReadHead, ReadReply, RemoveReply, StableHow, Status, Verifier,
    WccData, WriteArguments, WriteOk, WriteReply,
};
use pagewell_sunrpc::record::LAST_FRAGMENT;
use pagewell_sunrpc::rpc::{Call, Refusal, encode_refusal, encode_success, parse_call};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder, Error, Words};

use super::files::{FILE_BYTES_MAX, Files, HandleBytes, Object, ROOT, ReadFile, WrittenFile};

/// The most data of one READ.
pub(super) const READ_BYTES_MAX: usize = 1 << 20;
/// The most data of one WRITE.
pub(super) const WRITE_BYTES_MAX: usize = 1 << 20;

/// Of every WRITE and COMMIT: the server loses no unstable data.
const VERIFIER: Verifier = *b"pagewell";

pub(super) struct Data<'a> {
    pub(super) file: &'a ReadFile,
    pub(super) offset: u64,
    pub(super) length: usize,
}

/// Appends the reply to a record, with its marker; the data of a READ is returned.
pub(super) fn answer<'a>(files: &'a Files, record: &[u8], out: &mut Vec<u8>) -> Option<Data<'a>> {
    let mut encoder = Encoder::new(out);
    let start = encoder.position();
    encoder.u32(0);
    let body = encoder.position();
    let data = match parse_call(record) {
        Ok((call, mut arguments)) => carry_out(files, &call, &mut arguments, &mut encoder)
            .unwrap_or_else(|refusal| {
                encoder.truncate(body);
                encode_refusal(&mut encoder, call.xid, refusal);
                None
            }),
        Err(Some((xid, refusal))) => {
            encode_refusal(&mut encoder, xid, refusal);
            None
        }
        Err(None) => {
            encoder.truncate(start);
            return None;
        }
    };
    let following = data
        .as_ref()
        .map_or(0, |data| data.length.next_multiple_of(4));
    let length = encoder.position() - body + following;
    // A head and at most READ_BYTES_MAX: below 2^31.
    encoder.patch_u32(start, length as u32 | LAST_FRAGMENT);
    data
}

fn carry_out<'a>(
    files: &'a Files,
    call: &Call<'_>,
    arguments: &mut Decoder<'_>,
    encoder: &mut Encoder<'_>,
) -> Result<Option<Data<'a>>, Refusal> {
    encode_success(encoder, call.xid);
    match (call.program, call.version) {
        (nfs3::PROGRAM, nfs3::VERSION) => {
            let procedure = Procedure::from_number(call.procedure);
            let procedure = procedure.ok_or(Refusal::ProcedureUnavailable)?;
            nfs(files, procedure, arguments, encoder)
        }
        (mount3::PROGRAM, mount3::VERSION) => {
            mount(call.procedure, encoder)?;
            Ok(None)
        }
        _ => Err(Refusal::ProgramUnavailable),
    }
}

/// Every path is an export.
fn mount(procedure: u32, encoder: &mut Encoder<'_>) -> Result<(), Refusal> {
    match mount3::Procedure::from_number(procedure) {
        Some(mount3::Procedure::Null) => {}
        Some(mount3::Procedure::Mnt) => {
            let reply: mount3::MountReply<'_> = Ok(mount3::MountOk {
                handle: handle(&ROOT),
                // AUTH_SYS
                flavors: Words::new(&[1]).unwrap_or_default(),
            });
            reply.encode(encoder);
        }
        _ => return Err(Refusal::ProcedureUnavailable),
    }
    Ok(())
}

fn nfs<'a>(
    files: &'a Files,
    procedure: Procedure,
    arguments: &mut Decoder<'_>,
    encoder: &mut Encoder<'_>,
) -> Result<Option<Data<'a>>, Refusal> {
    let garbage = |_: Error| Refusal::GarbageArguments;
    match procedure {
        Procedure::Null => {}
        Procedure::Getattr => {
            let object = Handle::decode(arguments).map_err(garbage)?;
            getattr(files, object).encode(encoder);
        }
        Procedure::Lookup => {
            let what = DirectoryOperation::decode(arguments).map_err(garbage)?;
            lookup(files, what.name, encoder);
        }
        Procedure::Read => {
            let arguments = ReadArguments::decode(arguments).map_err(garbage)?;
            return Ok(read(files, &arguments, encoder));
        }
        Procedure::Write => {
            let arguments = WriteArguments::decode(arguments).map_err(garbage)?;
            let reply: WriteReply = write(files, &arguments).map_err(failed);
            reply.encode(encoder);
        }
        Procedure::Commit => {
            let CommitArguments { file, .. } = Decode::decode(arguments).map_err(garbage)?;
            let reply: CommitReply = commit(files, file).map_err(failed);
            reply.encode(encoder);
        }
        Procedure::Create => {
            let arguments = CreateArguments::decode(arguments).map_err(garbage)?;
            create(files, &arguments, encoder);
        }
        Procedure::Remove => {
            let object = DirectoryOperation::decode(arguments).map_err(garbage)?;
            let reply: RemoveReply = remove(files, object.name).map_err(failed);
            reply.encode(encoder);
        }
        _ => return Err(Refusal::ProcedureUnavailable),
    }
    Ok(None)
}

fn failed<F: Default>(status: Status) -> Failure<F> {
    Failure {
        status,
        body: F::default(),
    }
}

fn handle(bytes: &HandleBytes) -> Handle<'_> {
    Handle::new(bytes).unwrap_or_default()
}

fn getattr(files: &Files, object: Handle<'_>) -> GetattrReply {
    let object = files.object(object.as_bytes());
    let object = object.ok_or_else(|| failed(Status::Stale))?;
    Ok(object.attributes())
}

fn lookup(files: &Files, name: &[u8], encoder: &mut Encoder<'_>) {
    let found = files.find(name);
    let reply: LookupReply<'_> = match &found {
        Some((bytes, object)) => Ok(LookupOk {
            object: handle(bytes),
            object_attributes: Some(object.attributes()),
            directory_attributes: Some(Object::Root.attributes()),
        }),
        None => Err(failed(Status::NotFound)),
    };
    reply.encode(encoder);
}

fn read<'a>(
    files: &'a Files,
    arguments: &ReadArguments<'_>,
    encoder: &mut Encoder<'_>,
) -> Option<Data<'a>> {
    let object = files.object(arguments.file.as_bytes());
    let Some(Object::Read(file)) = object else {
        let status = object.map_or(Status::Stale, |_| Status::NotSupported);
        let reply: ReadReply<'_> = Err(failed(status));
        reply.encode(encoder);
        return None;
    };
    let left = file.size().saturating_sub(arguments.offset);
    let length = left.min(arguments.count.into()).min(READ_BYTES_MAX as u64);
    Status::Ok.encode(encoder);
    // At most READ_BYTES_MAX.
    let count = length as u32;
    let head = ReadHead {
        file_attributes: Some(Object::Read(file).attributes()),
        count,
        end_of_file: length == left,
        data_length: count,
    };
    head.encode(encoder);
    (length > 0).then_some(Data {
        file,
        offset: arguments.offset,
        length: length as usize,
    })
}

fn written<'a>(files: &'a Files, file: Handle<'_>) -> Result<&'a WrittenFile, Status> {
    match files.object(file.as_bytes()) {
        Some(Object::Written(file)) => Ok(file),
        Some(_) => Err(Status::ReadOnly),
        None => Err(Status::Stale),
    }
}

fn write(files: &Files, arguments: &WriteArguments<'_>) -> Result<WriteOk, Status> {
    let file = written(files, arguments.file)?;
    let length = arguments.data.len();
    if length != arguments.count as usize || length > WRITE_BYTES_MAX {
        return Err(Status::Invalid);
    }
    let end = arguments.offset.checked_add(length as u64);
    let end = end.filter(|end| *end <= FILE_BYTES_MAX);
    let end = end.ok_or(Status::FileTooLarge)?;
    let done = file.file.write_all_at(arguments.data, arguments.offset);
    done.map_err(|_| Status::Io)?;
    file.reached(end);
    if arguments.stable != StableHow::Unstable {
        file.file.sync_data().map_err(|_| Status::Io)?;
    }
    Ok(WriteOk {
        file_wcc: WccData::default(),
        count: arguments.count,
        committed: arguments.stable,
        verifier: VERIFIER,
    })
}

fn commit(files: &Files, file: Handle<'_>) -> Result<CommitOk, Status> {
    let file = written(files, file)?;
    file.file.sync_data().map_err(|_| Status::Io)?;
    Ok(CommitOk {
        file_wcc: WccData::default(),
        verifier: VERIFIER,
    })
}

/// Empties the file of a name, or gives it the length in the call.
fn create(files: &Files, arguments: &CreateArguments<'_>, encoder: &mut Encoder<'_>) {
    let size = match arguments.how {
        CreateHow::Unchecked(set) | CreateHow::Guarded(set) => set.size.unwrap_or(0),
        CreateHow::Exclusive(_) => 0,
    };
    let made = resize(files, arguments.what.name, size);
    let reply: CreateReply<'_> = match &made {
        Ok(bytes) => Ok(CreateOk {
            object: Some(handle(bytes)),
            object_attributes: None,
            directory_wcc: WccData::default(),
        }),
        Err(status) => Err(failed(*status)),
    };
    reply.encode(encoder);
}

/// The file stays, empty: its blocks are freed as by a removal.
fn remove(files: &Files, name: &[u8]) -> Result<WccData, Status> {
    resize(files, name, 0)?;
    Ok(WccData::default())
}

fn resize(files: &Files, name: &[u8], size: u64) -> Result<HandleBytes, Status> {
    let (bytes, object) = files.find(name).ok_or(Status::NotFound)?;
    let Object::Written(file) = object else {
        return Err(Status::ReadOnly);
    };
    if size > FILE_BYTES_MAX {
        return Err(Status::FileTooLarge);
    }
    file.set_size(size).map_err(|_| Status::Io)?;
    Ok(bytes)
}
