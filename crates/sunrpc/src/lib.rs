//! ONC RPC and its protocols in Pagewell: NFS version 3, MOUNT version 3, NLM version 4 and NSM
//! version 1 for locks, and version 2 of the port mapper.
//!
//! Decoders borrow from their record; encoders append to a caller's buffer. Every message has both
//! directions.
//!
//! Reading order: [`xdr`] (values on the wire), [`rpc`] (calls and replies), [`nfs3`], then
//! [`mount3`], [`nlm4`], [`nsm`] and [`portmap`]; [`client`] and [`caller`] make calls.

pub mod caller;
pub mod client;
pub mod mount3;
pub mod nfs3;
pub mod nlm4;
pub mod nsm;
pub mod portmap;
pub mod record;
pub mod rpc;
pub mod stream;
pub mod xdr;
