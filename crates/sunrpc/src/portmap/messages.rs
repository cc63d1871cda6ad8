//! Messages and numbers of the port mapper (RFC 1833 section 3).

use crate::xdr::{List, xdr_enumeration, xdr_structure};

/// The program number.
pub const PROGRAM: u32 = 100_000;
/// The version.
pub const VERSION: u32 = 2;
/// The port it listens on.
pub const PORT: u16 = 111;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u32 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u32 = 17;

xdr_enumeration! {
    /// A procedure of the port mapper that is used here; CALLIT is not.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Enter a mapping; answers whether it was entered.
        Set = 1,
        /// Remove the mappings of a program and version; answers whether they are gone.
        Unset = 2,
        /// The port of a program, version and protocol; 0 when there is none.
        Getport = 3,
        /// All mappings.
        Dump = 4,
    }
}

xdr_structure! {
    /// Where a program listens (`mapping`): the argument of SET, UNSET and GETPORT.
    #[derive(Hash)]
    pub struct Mapping {
        /// Program number.
        pub program: u32,
        /// Version of the program.
        pub version: u32,
        /// [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`]; UNSET ignores it.
        pub protocol: u32,
        /// Port; UNSET and GETPORT ignore it.
        pub port: u32,
    }
}

/// The result of DUMP (`pmaplist`).
pub type DumpReply<'a> = List<'a, Mapping>;
