//! NSM version 1, the network status monitor (X/Open XNFS chapter 11): a restarted machine notifies
//! its lock holders and lock servers. Only NOTIFY goes between machines.

use crate::xdr::{xdr_enumeration, xdr_structure};

/// The program number.
pub const PROGRAM: u32 = 100_024;
/// The version.
pub const VERSION: u32 = 1;
/// The longest name of a machine (`SM_MAXSTRLEN`).
pub const NAME_BYTES_MAX: usize = 1024;

xdr_enumeration! {
    /// A procedure of NSM between machines.
    pub enum Procedure {
        /// Does nothing.
        Null = 0,
        /// The calling machine has restarted.
        Notify = 6,
    }
}

xdr_structure! {
    /// The argument of NOTIFY (`stat_chge`).
    pub struct NotifyArguments<'a> {
        /// The restarted machine.
        pub name: &'a [u8] = NAME_BYTES_MAX,
        /// Its state number: odd while it runs, larger after each restart.
        pub state: i32,
    }
}
