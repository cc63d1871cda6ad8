//! A small NFS server in memory that can be told to misbehave.
#![allow(clippy::unwrap_used, reason = "it is part of a test")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use pagewell_load::load::Target;
use pagewell_sunrpc::nfs3::{
    self, AccessArguments, AccessOk, AccessReply, CommitArguments, CommitOk, CommitReply,
    CreateArguments, CreateHow, CreateOk, CreateReply, DeviceNumber, DirectoryOperation, Failure,
    FileAttributes, FileType, GetattrReply, Handle, LookupOk, LookupReply, Procedure,
    ReadArguments, ReadOk, ReadReply, ReaddirOk, ReaddirPlusArguments, ReaddirPlusEntry,
    RemoveReply, StableHow, Status, Time, WccData, WriteArguments, WriteOk, WriteReply,
};
use pagewell_sunrpc::rpc::{Refusal, encode_refusal, encode_success, parse_call};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder, Words, encode_item};
use pagewell_sunrpc::{mount3, record};

/// Entries of every directory.
pub(crate) const ENTRIES: u64 = 95;
/// Entries of one page of a listing.
const PAGE_ENTRIES: u64 = 10;

/// What the server does wrong, or only unusually.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Nothing.
    #[default]
    Right,
    /// Answers what it received at once in the opposite order.
    Backwards,
    /// Every reply in fragments of a few bytes.
    Fragments,
    /// READ gives at most 1000 bytes.
    ShortReads,
    /// READ gives nothing.
    EmptyReads,
    /// One byte of every READ is wrong.
    WrongData,
    /// WRITE takes all but one byte.
    ShortWrites,
    /// Each WRITE has another verifier.
    ChangingVerifier,
    /// COMMIT has another verifier than WRITE.
    OtherCommitVerifier,
    /// An xid that nobody used.
    WrongXid,
    /// Every reply twice.
    Twice,
    /// The procedure is answered with an error.
    Error(Procedure, Status),
    /// The RPC layer refuses NFS calls.
    Refuses,
    /// Closes the connection instead of an answer.
    Closes,
    /// A listing gets one entry longer each time.
    GrowingDirectory,
    /// A record of 2 GiB is announced.
    HugeRecord,
}

struct State {
    manner: Manner,
    /// Files by name; the name is the handle. The root and all directories are `/`.
    files: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    listings: Mutex<u64>,
    writes: Mutex<u64>,
}

/// A running server; it serves until the test's process ends.
pub(crate) struct FakeServer {
    state: Arc<State>,
    target: Target,
}

impl FakeServer {
    pub(crate) fn start(manner: Manner) -> Self {
        let state = Arc::new(State {
            manner,
            files: Mutex::default(),
            listings: Mutex::default(),
            writes: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || state.serve(socket));
            }
        });
        let target = Target {
            nfs: address,
            mount: address,
            export: "/export".to_owned(),
        };
        Self { state, target }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn put(&self, name: &str, data: Vec<u8>) {
        self.state.files.lock().unwrap().insert(name.into(), data);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.state
            .files
            .lock()
            .unwrap()
            .get(name.as_bytes())
            .cloned()
    }
}

impl State {
    fn serve(&self, mut socket: TcpStream) {
        let mut input = Vec::new();
        let mut piece = vec![0; 1 << 20];
        while let Ok(count @ 1..) = socket.read(&mut piece) {
            input.extend_from_slice(&piece[..count]);
            let mut replies = Vec::new();
            let mut taken = 0;
            while let Some((body, bytes)) = record::whole(&input[taken..]) {
                replies.push(self.reply(body));
                taken += bytes;
            }
            input.drain(..taken);
            if self.manner == Manner::Backwards {
                replies.reverse();
            }
            let is_nfs = |reply: &[u8]| reply.len() > 72;
            for reply in &replies {
                let stream = match self.manner {
                    Manner::Fragments => framed(reply, 7),
                    Manner::Twice => {
                        [framed(reply, usize::MAX), framed(reply, usize::MAX)].concat()
                    }
                    Manner::HugeRecord if is_nfs(reply) => vec![0xff; 4],
                    Manner::Closes if is_nfs(reply) => return,
                    _ => framed(reply, usize::MAX),
                };
                if socket.write_all(&stream).is_err() {
                    return;
                }
            }
        }
    }

    fn reply(&self, body: &[u8]) -> Vec<u8> {
        let (call, mut arguments) = parse_call(body).unwrap();
        let mut reply = Vec::new();
        let mut encoder = Encoder::new(&mut reply);
        let is_nfs = call.program == nfs3::PROGRAM;
        let wrong = is_nfs && self.manner == Manner::WrongXid;
        let xid = if wrong {
            call.xid ^ 0x4000_0000
        } else {
            call.xid
        };
        if is_nfs && self.manner == Manner::Refuses {
            encode_refusal(&mut encoder, xid, Refusal::SystemError);
            return reply;
        }
        encode_success(&mut encoder, xid);
        if !is_nfs {
            let path = mount3::PathArguments::decode(&mut arguments).unwrap().path;
            let root = Handle::new(b"/").unwrap();
            let mounted: mount3::MountReply<'_> = if path == b"/export" {
                Ok(mount3::MountOk {
                    handle: root,
                    flavors: Words::new(&[1]).unwrap(),
                })
            } else {
                Err(mount3::Status::NotFound)
            };
            mounted.encode(&mut encoder);
            return reply;
        }
        let procedure = Procedure::from_number(call.procedure).unwrap();
        match self.manner {
            Manner::Error(at, status) if at == procedure => {
                // Every failure body begins with one or two absent attributes.
                status.encode(&mut encoder);
                encoder.u64(0);
            }
            _ => self.nfs(procedure, &mut arguments, &mut encoder),
        }
        reply
    }

    fn nfs(&self, procedure: Procedure, decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_>) {
        match procedure {
            Procedure::Getattr => {
                let object = Handle::decode(decoder).unwrap();
                let reply: GetattrReply = match self.attributes(object.as_bytes()) {
                    Some(attributes) => Ok(attributes),
                    None => Err(Failure {
                        status: Status::Stale,
                        body: (),
                    }),
                };
                reply.encode(encoder);
            }
            Procedure::Lookup => self.lookup(decoder, encoder),
            Procedure::Access => {
                let access = AccessArguments::decode(decoder).unwrap().access;
                let reply: AccessReply = Ok(AccessOk {
                    object_attributes: None,
                    access,
                });
                reply.encode(encoder);
            }
            Procedure::Read => self.read(decoder, encoder),
            Procedure::Write => self.write(decoder, encoder),
            Procedure::Create => self.create(decoder, encoder),
            Procedure::Remove => {
                let name = DirectoryOperation::decode(decoder).unwrap().name;
                let there = self.files.lock().unwrap().remove(name).is_some();
                let reply: RemoveReply = if there {
                    Ok(WccData::default())
                } else {
                    Err(Failure {
                        status: Status::NotFound,
                        body: Default::default(),
                    })
                };
                reply.encode(encoder);
            }
            Procedure::Commit => {
                CommitArguments::decode(decoder).unwrap();
                let other = self.manner == Manner::OtherCommitVerifier;
                let verifier = [u8::from(other); 8];
                let reply: CommitReply = Ok(CommitOk {
                    file_wcc: WccData::default(),
                    verifier,
                });
                reply.encode(encoder);
            }
            Procedure::ReaddirPlus => self.list(decoder, encoder),
            other => panic!("{other:?}"),
        }
    }

    fn lookup(&self, decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_>) {
        let name = DirectoryOperation::decode(decoder).unwrap().name;
        let object = if name.starts_with(b"directory") {
            b"/"
        } else {
            name
        };
        let reply: LookupReply<'_> = match self.attributes(object) {
            Some(attributes) => Ok(LookupOk {
                object: Handle::new(object).unwrap(),
                object_attributes: Some(attributes),
                directory_attributes: None,
            }),
            None => Err(Failure {
                status: Status::NotFound,
                body: Default::default(),
            }),
        };
        reply.encode(encoder);
    }

    fn read(&self, decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_>) {
        let arguments = ReadArguments::decode(decoder).unwrap();
        let files = self.files.lock().unwrap();
        let data = &files[arguments.file.as_bytes()];
        let start = (arguments.offset as usize).min(data.len());
        let count = match self.manner {
            Manner::ShortReads => arguments.count.min(1000),
            Manner::EmptyReads => 0,
            _ => arguments.count,
        };
        let end = (start + count as usize).min(data.len());
        let mut bytes = data[start..end].to_vec();
        if let (Manner::WrongData, Some(byte)) = (self.manner, bytes.get_mut(77)) {
            *byte ^= 1;
        }
        let reply: ReadReply<'_> = Ok(ReadOk {
            file_attributes: self.manner_attributes(data.len()),
            count: bytes.len() as u32,
            end_of_file: end == data.len(),
            data: &bytes,
        });
        reply.encode(encoder);
    }

    /// Optional attributes are there in some tests and not in others.
    fn manner_attributes(&self, size: usize) -> Option<FileAttributes> {
        (self.manner != Manner::Backwards).then(|| attributes(FileType::Regular, size))
    }

    fn write(&self, decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_>) {
        let arguments = WriteArguments::decode(decoder).unwrap();
        assert_eq!(arguments.count as usize, arguments.data.len());
        assert_eq!(arguments.stable, StableHow::Unstable);
        let mut files = self.files.lock().unwrap();
        let file = files.get_mut(arguments.file.as_bytes()).unwrap();
        let (start, length) = (arguments.offset as usize, arguments.data.len());
        file.resize(file.len().max(start + length), 0);
        file[start..start + length].copy_from_slice(arguments.data);
        let mut writes = self.writes.lock().unwrap();
        *writes += 1;
        let changes = self.manner == Manner::ChangingVerifier;
        let missing = u32::from(self.manner == Manner::ShortWrites);
        let reply: WriteReply = Ok(WriteOk {
            file_wcc: WccData::default(),
            count: arguments.count - missing,
            committed: StableHow::Unstable,
            verifier: if changes {
                writes.to_be_bytes()
            } else {
                [0; 8]
            },
        });
        reply.encode(encoder);
    }

    fn create(&self, decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_>) {
        let arguments = CreateArguments::decode(decoder).unwrap();
        let CreateHow::Unchecked(set) = arguments.how else {
            panic!("{arguments:?}")
        };
        let data = vec![0; set.size.unwrap_or(0) as usize];
        self.files
            .lock()
            .unwrap()
            .insert(arguments.what.name.to_vec(), data);
        // The handle is optional; without it the client must look it up.
        let reply: CreateReply<'_> = Ok(CreateOk {
            object: None,
            object_attributes: None,
            directory_wcc: WccData::default(),
        });
        reply.encode(encoder);
    }

    fn list(&self, decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_>) {
        let arguments = ReaddirPlusArguments::decode(decoder).unwrap();
        assert_eq!(arguments.verifier, [u8::from(arguments.cookie > 0); 8]);
        let mut listings = self.listings.lock().unwrap();
        *listings += u64::from(arguments.cookie == 0);
        let grows = self.manner == Manner::GrowingDirectory;
        let entries = ENTRIES + if grows { *listings } else { 0 };
        Status::Ok.encode(encoder);
        ReaddirOk::encode_head(encoder, &None, &[1; 8]);
        let page = (arguments.cookie + PAGE_ENTRIES).min(entries);
        for index in arguments.cookie..page {
            let name = format!("file-{index}");
            let entry = ReaddirPlusEntry {
                file_id: index,
                name: name.as_bytes(),
                cookie: index + 1,
                attributes: Some(attributes(FileType::Regular, 1)),
                handle: None,
            };
            encode_item(encoder, &entry);
        }
        ReaddirOk::encode_tail(encoder, page == entries);
    }

    fn attributes(&self, object: &[u8]) -> Option<FileAttributes> {
        if object == b"/" {
            return Some(attributes(FileType::Directory, 4096));
        }
        let files = self.files.lock().unwrap();
        files
            .get(object)
            .map(|data| attributes(FileType::Regular, data.len()))
    }
}

fn attributes(file_type: FileType, size: usize) -> FileAttributes {
    FileAttributes {
        file_type,
        mode: 0o644,
        link_count: 1,
        uid: 0,
        gid: 0,
        size: size as u64,
        used: 0,
        device: DeviceNumber::default(),
        filesystem_id: 1,
        file_id: 2,
        accessed: Time::default(),
        modified: Time::default(),
        changed: Time::default(),
    }
}

/// A record in fragments of at most `bytes_max` bytes.
fn framed(record: &[u8], bytes_max: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut pieces = record.chunks(bytes_max).peekable();
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() {
            record::LAST_FRAGMENT
        } else {
            0
        };
        stream.extend_from_slice(&(piece.len() as u32 | last).to_be_bytes());
        stream.extend_from_slice(piece);
    }
    stream
}
