//! One call after the other: what a run needs before and after its load.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use pagewell_sunrpc::mount3;
use pagewell_sunrpc::nfs3::{
    self, CommitArguments, CommitReply, CreateArguments, CreateHow, CreateReply,
    DirectoryOperation, Failure, GetattrReply, Handle, LookupReply, Procedure, RemoveReply,
    SetAttributes, Status, Verifier,
};
use pagewell_sunrpc::rpc::{Call, Credential, SystemCredential, encode_call, parse_reply};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder, Words};

use super::LoadError;
use super::incoming::{Incoming, Kept};
use super::outgoing::Outgoing;
use super::slots::Sequence;

/// How long a reply may take: COMMIT of gigabytes to a slow disk is no error.
pub(super) const REPLY_WAIT: Duration = Duration::from_secs(120);
const RECORD_BYTES_MAX: usize = 64 << 10;

pub(super) const fn silent() -> LoadError {
    LoadError::Silent {
        seconds: REPLY_WAIT.as_secs(),
    }
}

/// The superuser, as AUTH_SYS; the measured servers do not squash.
pub(super) fn credential() -> Credential<'static> {
    Credential::System(SystemCredential {
        stamp: 0,
        machine_name: b"pagewell-load",
        uid: 0,
        gid: 0,
        gids: Words::default(),
    })
}

pub(super) type OwnedHandle = Vec<u8>;

pub(super) fn handle(bytes: &[u8]) -> Handle<'_> {
    // Kept from a decoded handle, so not too long; every server refuses an empty one.
    Handle::new(bytes).unwrap_or_default()
}

pub(super) fn entry<'a>(directory: &'a [u8], name: &'a [u8]) -> DirectoryOperation<'a> {
    let directory = handle(directory);
    DirectoryOperation { directory, name }
}

/// Connects without the delay of small segments, and with a limit on waiting.
///
/// The buffers of the socket keep the kernel's tuning: setting them would end it, and it grows
/// further than an ordinary user may set.
pub(super) fn connect(address: SocketAddr) -> Result<TcpStream, LoadError> {
    let connect = || {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(REPLY_WAIT))?;
        Ok(socket)
    };
    connect().map_err(|source| LoadError::Connect { address, source })
}

/// A connection with at most one call in flight.
pub(super) struct Client {
    socket: TcpStream,
    incoming: Incoming,
    outgoing: Outgoing,
    reply: Vec<u8>,
    sequence: Sequence,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Result<Self, LoadError> {
        Ok(Self {
            socket: connect(address)?,
            incoming: Incoming::new(Kept::Whole, RECORD_BYTES_MAX),
            outgoing: Outgoing::default(),
            reply: Vec::new(),
            sequence: Sequence::default(),
        })
    }

    fn call<'a>(
        &'a mut self,
        (program, version, procedure): (u32, u32, u32),
        name: &'static str,
        arguments: &impl Encode,
    ) -> Result<Decoder<'a>, LoadError> {
        let xid = self.sequence.next();
        let call = Call {
            xid,
            program,
            version,
            procedure,
            credential: credential(),
        };
        self.outgoing.push(0, |encoder: &mut Encoder<'_>| {
            encode_call(encoder, &call);
            arguments.encode(encoder);
        });
        // A few hundred bytes on an idle connection always fit.
        while !self.outgoing.send(&self.socket, &[])? {
            std::thread::yield_now();
        }
        self.receive()?;
        let (answered, decoder) = parse_reply(&self.reply).map_err(|error| LoadError::Rpc {
            procedure: name,
            error,
        })?;
        if answered != xid {
            return Err(LoadError::UnknownXid { xid: answered });
        }
        Ok(decoder)
    }

    fn receive(&mut self) -> Result<(), LoadError> {
        loop {
            if let Some(record) = self.incoming.next()? {
                self.reply.clear();
                self.reply.extend_from_slice(record.bytes);
                return Ok(());
            }
            self.incoming.receive(&self.socket, true)?;
        }
    }

    fn nfs<'a, R: Reply + Decode<'a>>(
        &'a mut self,
        procedure: Procedure,
        arguments: &impl Encode,
    ) -> Result<R::Success, LoadError> {
        let number = (nfs3::PROGRAM, nfs3::VERSION, procedure.number());
        let mut decoder = self.call(number, procedure.name(), arguments)?;
        results::<R>(&mut decoder, procedure)
    }

    /// The root of an export. The connection must be to the port of MOUNT.
    pub(super) fn mount(&mut self, export: &str) -> Result<OwnedHandle, LoadError> {
        let number = (
            mount3::PROGRAM,
            mount3::VERSION,
            mount3::Procedure::Mnt.number(),
        );
        let path = mount3::PathArguments {
            path: export.as_bytes(),
        };
        let mut decoder = self.call(number, "mnt", &path)?;
        match decoded::<mount3::MountReply<'_>>(&mut decoder, "mnt")? {
            Ok(mounted) => Ok(mounted.handle.as_bytes().to_vec()),
            Err(status) => Err(LoadError::Mount {
                export: export.to_owned(),
                status,
            }),
        }
    }

    pub(super) fn lookup(&mut self, parent: &[u8], name: &[u8]) -> Result<OwnedHandle, LoadError> {
        let found = self.nfs::<LookupReply<'_>>(Procedure::Lookup, &entry(parent, name))?;
        Ok(found.object.as_bytes().to_vec())
    }

    pub(super) fn size(&mut self, object: &[u8]) -> Result<u64, LoadError> {
        let found = self.nfs::<GetattrReply>(Procedure::Getattr, &handle(object))?;
        Ok(found.size)
    }

    /// Makes a file of `bytes` zeros; replaces an existing one.
    pub(super) fn create(
        &mut self,
        parent: &[u8],
        name: &[u8],
        bytes: u64,
    ) -> Result<OwnedHandle, LoadError> {
        match self.remove(parent, name) {
            Ok(())
            | Err(LoadError::Status {
                status: Status::NotFound,
                ..
            }) => {}
            Err(error) => return Err(error),
        }
        let attributes = SetAttributes {
            mode: Some(0o644),
            size: Some(bytes),
            ..SetAttributes::default()
        };
        let arguments = CreateArguments {
            what: entry(parent, name),
            how: CreateHow::Unchecked(attributes),
        };
        let made = self.nfs::<CreateReply<'_>>(Procedure::Create, &arguments)?;
        match made.object {
            Some(object) => Ok(object.as_bytes().to_vec()),
            None => self.lookup(parent, name),
        }
    }

    pub(super) fn remove(&mut self, parent: &[u8], name: &[u8]) -> Result<(), LoadError> {
        self.nfs::<RemoveReply>(Procedure::Remove, &entry(parent, name))?;
        Ok(())
    }

    /// Brings a file to stable storage.
    pub(super) fn commit(&mut self, file: &[u8]) -> Result<Verifier, LoadError> {
        let arguments = CommitArguments {
            file: handle(file),
            offset: 0,
            count: 0,
        };
        let done = self.nfs::<CommitReply>(Procedure::Commit, &arguments)?;
        Ok(done.verifier)
    }
}

/// A reply of NFS: its results, or the status of its failure.
pub(super) trait Reply {
    type Success;

    fn status(self) -> Result<Self::Success, Status>;
}

impl<S, F> Reply for Result<S, Failure<F>> {
    type Success = S;

    fn status(self) -> Result<S, Status> {
        self.map_err(|failure| failure.status)
    }
}

/// The results of a call that must succeed.
pub(super) fn results<'a, R: Reply + Decode<'a>>(
    decoder: &mut Decoder<'a>,
    procedure: Procedure,
) -> Result<R::Success, LoadError> {
    let reply: R = decoded(decoder, procedure.name())?;
    let failed = |status| LoadError::Status { procedure, status };
    reply.status().map_err(failed)
}

fn decoded<'a, R: Decode<'a>>(
    decoder: &mut Decoder<'a>,
    procedure: &'static str,
) -> Result<R, LoadError> {
    R::decode(decoder).map_err(|error| LoadError::Malformed { procedure, error })
}
