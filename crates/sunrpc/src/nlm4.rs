//! NLM version 4 (RFC 1813 appendix II; older versions: X/Open XNFS chapter 10): locks on ranges of
//! files.
//!
//! TEST, LOCK, CANCEL, UNLOCK and GRANTED exist twice: as a call with a reply, and as a pair of
//! one-way calls, `_MSG` with the arguments and `_RES` with the result. The server calls GRANTED
//! when it grants a [`Status::Blocked`] lock.

use crate::nsm::NotifyArguments;
use crate::xdr::{Decode, Decoder, Encode, Encoder, Result, xdr_enumeration, xdr_structure};

/// The program number.
pub const PROGRAM: u32 = 100_021;
/// The version.
pub const VERSION: u32 = 4;
/// The longest caller's name (`LM_MAXSTRLEN`).
pub const NAME_BYTES_MAX: usize = 1024;
/// The longest cookie, handle or owner (`MAXNETOBJ_SZ`).
pub const OBJECT_BYTES_MAX: usize = 1024;

xdr_enumeration! {
    /// A procedure.
    pub enum Procedure {
        /// Does nothing.
        Null = 0,
        /// Tests for a conflicting lock.
        Test = 1,
        /// Locks a range.
        Lock = 2,
        /// Stops waiting for a lock.
        Cancel = 3,
        /// Unlocks a range.
        Unlock = 4,
        /// From the server: grants a blocked lock.
        Granted = 5,
        /// [`Procedure::Test`], one way.
        TestMessage = 6,
        /// [`Procedure::Lock`], one way.
        LockMessage = 7,
        /// [`Procedure::Cancel`], one way.
        CancelMessage = 8,
        /// [`Procedure::Unlock`], one way.
        UnlockMessage = 9,
        /// [`Procedure::Granted`], one way.
        GrantedMessage = 10,
        /// The result of [`Procedure::TestMessage`].
        TestResult = 11,
        /// The result of [`Procedure::LockMessage`].
        LockResult = 12,
        /// The result of [`Procedure::CancelMessage`].
        CancelResult = 13,
        /// The result of [`Procedure::UnlockMessage`].
        UnlockResult = 14,
        /// The result of [`Procedure::GrantedMessage`].
        GrantedResult = 15,
        /// Opens a file with a DOS share mode.
        Share = 20,
        /// Closes such a file.
        Unshare = 21,
        /// [`Procedure::Lock`] without restart notices.
        UnmonitoredLock = 22,
        /// The restarted caller holds no locks.
        FreeAll = 23,
    }
}

xdr_enumeration! {
    /// The status of a request (`nlm4_stats`).
    pub enum Status {
        /// NLM4_GRANTED: done.
        Granted = 0,
        /// NLM4_DENIED: another owner's lock conflicts.
        Denied = 1,
        /// NLM4_DENIED_NOLOCKS: no memory.
        NoLocks = 2,
        /// NLM4_BLOCKED: GRANTED follows.
        Blocked = 3,
        /// NLM4_DENIED_GRACE_PERIOD: reclaims only, after a restart.
        GracePeriod = 4,
        /// NLM4_DEADLCK: waiting would deadlock.
        Deadlock = 5,
        /// NLM4_ROFS: a read-only file system.
        ReadOnly = 6,
        /// NLM4_STALE_FH: no such object.
        Stale = 7,
        /// NLM4_FBIG: beyond the bound of a file.
        TooBig = 8,
        /// NLM4_FAILED; a retry does not help.
        Failed = 9,
    }
}

xdr_enumeration! {
    /// What other openers of a file may not do (`fsh4_mode`).
    pub enum ShareMode {
        /// Nothing.
        DenyNone = 0,
        /// Reading.
        DenyRead = 1,
        /// Writing.
        DenyWrite = 2,
        /// Both.
        DenyBoth = 3,
    }
}

xdr_enumeration! {
    /// What an opener does (`fsh4_access`).
    pub enum ShareAccess {
        /// Nothing.
        None = 0,
        /// Reading.
        Read = 1,
        /// Writing.
        Write = 2,
        /// Both.
        Both = 3,
    }
}

xdr_structure! {
    /// An owner's range of a file (`nlm4_lock`).
    pub struct Lock<'a> {
        /// The caller's machine.
        pub caller_name: &'a [u8] = NAME_BYTES_MAX,
        /// Handle of the file.
        pub handle: &'a [u8] = OBJECT_BYTES_MAX,
        /// A program on that machine.
        pub owner: &'a [u8] = OBJECT_BYTES_MAX,
        /// Its process number.
        pub process: i32,
        /// First byte.
        pub offset: u64,
        /// Bytes; 0: to the end of the file, even as it grows.
        pub length: u64,
    }
}

xdr_structure! {
    /// A conflicting lock (`nlm4_holder`).
    pub struct Holder<'a> {
        /// Exclusive, not shared.
        pub exclusive: bool,
        /// As in [`Lock`].
        pub process: i32,
        /// As in [`Lock`].
        pub owner: &'a [u8] = OBJECT_BYTES_MAX,
        /// As in [`Lock`].
        pub offset: u64,
        /// As in [`Lock`].
        pub length: u64,
    }
}

xdr_structure! {
    /// The argument of TEST and of GRANTED (`nlm4_testargs`).
    pub struct TestArguments<'a> {
        /// Repeated in the result.
        pub cookie: &'a [u8] = OBJECT_BYTES_MAX,
        /// Exclusive, not shared.
        pub exclusive: bool,
        /// The range.
        pub lock: Lock<'a>,
    }
}

xdr_structure! {
    /// The argument of LOCK (`nlm4_lockargs`).
    pub struct LockArguments<'a> {
        /// Repeated in the result.
        pub cookie: &'a [u8] = OBJECT_BYTES_MAX,
        /// The caller waits.
        pub block: bool,
        /// Exclusive, not shared.
        pub exclusive: bool,
        /// The range.
        pub lock: Lock<'a>,
        /// The caller held it before the server's restart.
        pub reclaim: bool,
        /// State number of the caller's status monitor.
        pub state: i32,
    }
}

xdr_structure! {
    /// The argument of CANCEL (`nlm4_cancargs`): that of the LOCK.
    pub struct CancelArguments<'a> {
        /// Repeated in the result.
        pub cookie: &'a [u8] = OBJECT_BYTES_MAX,
        /// As in the LOCK.
        pub block: bool,
        /// As in the LOCK.
        pub exclusive: bool,
        /// As in the LOCK.
        pub lock: Lock<'a>,
    }
}

xdr_structure! {
    /// The argument of UNLOCK (`nlm4_unlockargs`).
    pub struct UnlockArguments<'a> {
        /// Repeated in the result.
        pub cookie: &'a [u8] = OBJECT_BYTES_MAX,
        /// The range.
        pub lock: Lock<'a>,
    }
}

xdr_structure! {
    /// The result of LOCK, CANCEL, UNLOCK and GRANTED (`nlm4_res`).
    pub struct Reply<'a> {
        /// Of the call.
        pub cookie: &'a [u8] = OBJECT_BYTES_MAX,
        /// The outcome.
        pub status: Status,
    }
}

xdr_structure! {
    /// A file opened with a share mode (`nlm4_share`).
    pub struct Share<'a> {
        /// As in [`Lock`].
        pub caller_name: &'a [u8] = NAME_BYTES_MAX,
        /// As in [`Lock`].
        pub handle: &'a [u8] = OBJECT_BYTES_MAX,
        /// As in [`Lock`].
        pub owner: &'a [u8] = OBJECT_BYTES_MAX,
        /// Denied to other openers.
        pub mode: ShareMode,
        /// The caller's access.
        pub access: ShareAccess,
    }
}

xdr_structure! {
    /// The argument of SHARE and UNSHARE (`nlm4_shareargs`).
    pub struct ShareArguments<'a> {
        /// Repeated in the result.
        pub cookie: &'a [u8] = OBJECT_BYTES_MAX,
        /// The file and the modes.
        pub share: Share<'a>,
        /// The caller held it before the server's restart.
        pub reclaim: bool,
    }
}

xdr_structure! {
    /// The result of SHARE and UNSHARE (`nlm4_shareres`).
    pub struct ShareReply<'a> {
        /// Of the call.
        pub cookie: &'a [u8] = OBJECT_BYTES_MAX,
        /// The outcome.
        pub status: Status,
        /// Meaningless.
        pub sequence: i32,
    }
}

/// The argument of FREE_ALL (`nlm4_notify`); its state is meaningless.
pub type FreeAllArguments<'a> = NotifyArguments<'a>;

/// The result of TEST (`nlm4_testres`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestReply<'a> {
    /// Of the call.
    pub cookie: &'a [u8],
    /// A conflicting lock, or a status: [`Status::Granted`] without one, or why it is unknown;
    /// never [`Status::Denied`].
    pub answer: std::result::Result<Status, Holder<'a>>,
}

impl Encode for TestReply<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self.cookie);
        match &self.answer {
            Ok(status) => {
                debug_assert_ne!(*status, Status::Denied);
                status.encode(encoder);
            }
            Err(holder) => {
                Status::Denied.encode(encoder);
                holder.encode(encoder);
            }
        }
    }
}

impl<'a> Decode<'a> for TestReply<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self> {
        let cookie = decoder.opaque(OBJECT_BYTES_MAX)?;
        let answer = match Status::decode(decoder)? {
            Status::Denied => Err(Holder::decode(decoder)?),
            status => Ok(status),
        };
        Ok(Self { cookie, answer })
    }
}

impl ShareMode {
    /// Whether this mode denies `access` to other openers.
    #[must_use]
    pub const fn denies(self, access: ShareAccess) -> bool {
        self.number() & access.number() != 0
    }
}

impl Procedure {
    /// Of a one-way call: the call with its arguments, and the one-way call for its result.
    #[must_use]
    pub const fn of_message(self) -> Option<(Self, Self)> {
        Some(match self {
            Self::TestMessage => (Self::Test, Self::TestResult),
            Self::LockMessage => (Self::Lock, Self::LockResult),
            Self::CancelMessage => (Self::Cancel, Self::CancelResult),
            Self::UnlockMessage => (Self::Unlock, Self::UnlockResult),
            Self::GrantedMessage => (Self::Granted, Self::GrantedResult),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_the_bytes_of_the_rfc() {
        let arguments = LockArguments {
            cookie: &[7],
            block: true,
            exclusive: false,
            lock: Lock {
                caller_name: b"me",
                handle: &[1, 2, 3, 4],
                owner: b"12",
                process: -2,
                offset: 0x0102_0304_0506_0708,
                length: 0,
            },
            reclaim: false,
            state: 5,
        };
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 1, 7, 0, 0, 0, // cookie
            0, 0, 0, 1, 0, 0, 0, 0, // block, shared
            0, 0, 0, 2, b'm', b'e', 0, 0, 0, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 2, b'1', b'2', 0, 0,
            0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 5, // no reclaim, state
        ];
        let mut buffer = Vec::new();
        arguments.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, expected);
    }

    #[test]
    fn only_a_denied_test_names_a_holder() {
        let free = TestReply {
            cookie: b"",
            answer: Ok(Status::Granted),
        };
        let holder = Holder {
            exclusive: true,
            process: 1,
            owner: b"",
            offset: 2,
            length: 3,
        };
        let taken = TestReply {
            cookie: b"",
            answer: Err(holder),
        };
        let mut buffer = Vec::new();
        free.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer, [0; 8]);
        buffer.clear();
        taken.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(buffer[..8], [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(TestReply::decode(&mut Decoder::new(&buffer)), Ok(taken));
    }

    #[test]
    fn lengths_over_the_limit_are_refused() {
        let long = [0; OBJECT_BYTES_MAX + 1];
        let mut buffer = Vec::new();
        let reply = Reply {
            cookie: &long,
            status: Status::Granted,
        };
        reply.encode(&mut Encoder::new(&mut buffer));
        assert_eq!(
            Reply::decode(&mut Decoder::new(&buffer)),
            Err(crate::xdr::Error::TooLong)
        );
    }

    #[test]
    fn share_modes_deny_what_they_name() {
        assert!(!ShareMode::DenyNone.denies(ShareAccess::Both));
        assert!(ShareMode::DenyRead.denies(ShareAccess::Both));
        assert!(!ShareMode::DenyRead.denies(ShareAccess::Write));
        assert!(ShareMode::DenyBoth.denies(ShareAccess::Write));
        assert!(!ShareMode::DenyBoth.denies(ShareAccess::None));
    }
}
