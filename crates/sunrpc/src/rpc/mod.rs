//! ONC RPC version 2 (RFC 5531): the envelope of calls and replies, and which
//! user the caller says it is. Record marking on byte streams is not here.

mod call;
mod credential;
mod reply;

pub use call::{Call, CallError, encode_call, parse_call};
pub use credential::{
    AUTHENTICATION_BYTES_MAX, Credential, GROUPS_MAX, MACHINE_NAME_BYTES_MAX, SystemCredential,
};
pub use reply::{
    AuthenticationStatus, Refusal, ReplyError, SUCCESS_SIZE, encode_refusal, encode_success,
    parse_reply,
};

/// The version of the RPC protocol (RFC 5531 section 9, `rpcvers`).
pub const RPC_VERSION: u32 = 2;

/// `msg_type` of a call.
const CALL: u32 = 0;
/// `msg_type` of a reply.
const REPLY: u32 = 1;
