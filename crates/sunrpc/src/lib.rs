//! ONC RPC and its protocols in Pagewell: NFS version 3, MOUNT version 3, NLM version 4 and NSM
//! version 1 for locks, and version 2 of the port mapper.
//!
//! There are no file-system semantics and no listening socket here. Decoders borrow from their
//! record without a copy; encoders append to a caller's buffer. Every message has both directions,
//! for the server, the load generator and the client.
//!
//! Reading order: [`xdr`] (values on the wire), [`rpc`] (calls and replies), [`nfs3`] (the
//! procedures), then [`mount3`], [`nlm4`], [`nsm`] and [`portmap`]; [`client`] and [`caller`] make
//! calls.

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
