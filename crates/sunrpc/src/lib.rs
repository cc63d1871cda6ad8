//! ONC RPC and the protocols that Pagewell speaks over it: NFS version 3, MOUNT version 3, NLM
//! version 4 and NSM version 1 for locks, and version 2 of the port mapper.
//!
//! This crate has no file-system semantics and no listening socket. Decoders borrow from their
//! record and copy nothing; encoders append to a caller's buffer. Every message goes both ways,
//! because the server, the load generator and the client share them.
//!
//! Reading order: [`xdr`] (values on the wire), [`rpc`] (calls and replies), [`nfs3`] (the
//! procedures), then [`mount3`], [`nlm4`], [`nsm`] and [`portmap`]; at last [`client`] and
//! [`caller`], which make calls.

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
