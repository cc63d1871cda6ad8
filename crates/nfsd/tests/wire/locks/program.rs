//! Programs on client machines that lock files.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pagewell_sunrpc::caller::{Caller, Target};
use pagewell_sunrpc::nlm4::{
    self, CancelArguments, FreeAllArguments, Lock, LockArguments, Procedure, Reply, Share,
    ShareAccess, ShareArguments, ShareMode, ShareReply, Status, TestArguments, TestReply,
    UnlockArguments,
};
use pagewell_sunrpc::nsm::{self, NotifyArguments};

use crate::client::{Client, User, encoded};
use crate::operations::FileHandle;

/// The state number of the machines here, as long as they do not restart.
pub(super) const STATE: i32 = 5;

/// To read with others, or to write alone.
pub(super) const READ: bool = false;
pub(crate) const WRITE: bool = true;

/// A program and the file it locks.
pub(crate) struct Program {
    pub(crate) client: Client,
    pub(super) machine: &'static str,
    pub(super) process: i32,
    pub(super) file: FileHandle,
}

impl Program {
    pub(crate) fn new(
        server: SocketAddr,
        machine: &'static str,
        process: i32,
        file: &[u8],
    ) -> Self {
        Self {
            client: Client::connect(server, User::root()),
            machine,
            process,
            file: file.to_vec(),
        }
    }

    fn range<'a>(&'a self, owner: &'a [u8], (offset, length): (u64, u64)) -> Lock<'a> {
        Lock {
            caller_name: self.machine.as_bytes(),
            handle: &self.file,
            owner,
            process: self.process,
            offset,
            length,
        }
    }

    fn owner(&self) -> Vec<u8> {
        format!("{}@{}", self.process, self.machine).into_bytes()
    }

    fn call(&mut self, procedure: Procedure, arguments: &[u8]) -> Status {
        let target = (nlm4::PROGRAM, nlm4::VERSION, procedure.number());
        let answer = self.client.call(target, arguments);
        let reply: Reply<'_> = answer.decode();
        assert_eq!(reply.cookie, b"cookie");
        reply.status
    }

    /// The arguments of a LOCK.
    pub(super) fn lock_arguments(
        &self,
        exclusive: bool,
        range: (u64, u64),
        (block, reclaim): (bool, bool),
    ) -> Vec<u8> {
        encoded(&LockArguments {
            cookie: b"cookie",
            block,
            exclusive,
            lock: self.range(&self.owner(), range),
            reclaim,
            state: STATE,
        })
    }

    pub(crate) fn lock(&mut self, exclusive: bool, range: (u64, u64)) -> Status {
        let arguments = self.lock_arguments(exclusive, range, (false, false));
        self.call(Procedure::Lock, &arguments)
    }

    pub(super) fn lock_or_wait(&mut self, exclusive: bool, range: (u64, u64)) -> Status {
        let arguments = self.lock_arguments(exclusive, range, (true, false));
        self.call(Procedure::Lock, &arguments)
    }

    pub(super) fn reclaim(&mut self, exclusive: bool, range: (u64, u64)) -> Status {
        let arguments = self.lock_arguments(exclusive, range, (false, true));
        self.call(Procedure::Lock, &arguments)
    }

    pub(super) fn cancel(&mut self, exclusive: bool, range: (u64, u64)) -> Status {
        let arguments = encoded(&CancelArguments {
            cookie: b"cookie",
            block: true,
            exclusive,
            lock: self.range(&self.owner(), range),
        });
        self.call(Procedure::Cancel, &arguments)
    }

    pub(super) fn unlock(&mut self, range: (u64, u64)) -> Status {
        let arguments = encoded(&UnlockArguments {
            cookie: b"cookie",
            lock: self.range(&self.owner(), range),
        });
        self.call(Procedure::Unlock, &arguments)
    }

    /// Whose lock is in the way, and where it is.
    pub(super) fn test(
        &mut self,
        exclusive: bool,
        range: (u64, u64),
    ) -> Result<Status, (i32, bool, u64, u64)> {
        let arguments = encoded(&TestArguments {
            cookie: b"cookie",
            exclusive,
            lock: self.range(&self.owner(), range),
        });
        let target = (nlm4::PROGRAM, nlm4::VERSION, Procedure::Test.number());
        let answer = self.client.call(target, &arguments);
        let reply: TestReply<'_> = answer.decode();
        reply.answer.map_err(|holder| {
            (
                holder.process,
                holder.exclusive,
                holder.offset,
                holder.length,
            )
        })
    }

    pub(super) fn share(
        &mut self,
        procedure: Procedure,
        mode: ShareMode,
        access: ShareAccess,
    ) -> Status {
        let arguments = encoded(&ShareArguments {
            cookie: b"cookie",
            share: Share {
                caller_name: self.machine.as_bytes(),
                handle: &self.file,
                owner: &self.owner(),
                mode,
                access,
            },
            reclaim: false,
        });
        let target = (nlm4::PROGRAM, nlm4::VERSION, procedure.number());
        let answer = self.client.call(target, &arguments);
        let reply: ShareReply<'_> = answer.decode();
        reply.status
    }
}

/// A connection from one of the other addresses of this machine.
fn from(server: SocketAddr, address: [u8; 4]) -> Caller {
    Caller::connect(
        "the server",
        &server,
        Some(IpAddr::from(address)),
        Duration::from_secs(60),
    )
    .unwrap()
}

/// The machine at `address` says that it holds nothing.
pub(super) fn free_all(server: SocketAddr, address: [u8; 4], machine: &str) {
    let target = Target {
        program: nlm4::PROGRAM,
        version: nlm4::VERSION,
        procedure: Procedure::FreeAll.number(),
    };
    let arguments = FreeAllArguments {
        name: machine.as_bytes(),
        state: 0,
    };
    let called = from(server, address).call(target, &arguments, |_| Ok(()));
    called.unwrap();
}

/// The machine at `address` says that it has restarted.
pub(super) fn notify(server: SocketAddr, address: [u8; 4], machine: &str, state: i32) {
    let target = Target {
        program: nsm::PROGRAM,
        version: nsm::VERSION,
        procedure: nsm::Procedure::Notify.number(),
    };
    let arguments = NotifyArguments {
        name: machine.as_bytes(),
        state,
    };
    let called = from(server, address).call(target, &arguments, |_| Ok(()));
    called.unwrap();
}

/// The machine at `address` tries to unlock a file with the words of `program`.
pub(super) fn forged_unlock(server: SocketAddr, address: [u8; 4], program: &Program) -> Status {
    let target = Target {
        program: nlm4::PROGRAM,
        version: nlm4::VERSION,
        procedure: Procedure::Unlock.number(),
    };
    let owner = program.owner();
    let arguments = UnlockArguments {
        cookie: b"cookie",
        lock: program.range(&owner, (0, 0)),
    };
    let read = |results: &mut pagewell_sunrpc::xdr::Decoder<'_>| {
        use pagewell_sunrpc::xdr::Decode;
        Ok(Reply::decode(results)?.status)
    };
    let called = from(server, address).call(target, &arguments, read);
    called.unwrap()
}
