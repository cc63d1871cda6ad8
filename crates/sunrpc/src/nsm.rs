//! NSM version 1, the network status monitor (X/Open XNFS chapter 11): a machine that has restarted
//! notifies those that hold locks of it, or whose locks it held.
//!
//! NOTIFY goes from machine to machine; the other procedures are for the lock manager of the
//! machine itself and are not described here.

use crate::xdr::{xdr_enumeration, xdr_structure};

/// The program number.
pub const PROGRAM: u32 = 100_024;
/// The version.
pub const VERSION: u32 = 1;
/// The longest name of a machine (`SM_MAXSTRLEN`).
pub const NAME_BYTES_MAX: usize = 1024;

xdr_enumeration! {
    /// A procedure of NSM that is called from another machine.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// The machine that calls has restarted.
        Notify = 6,
    }
}

xdr_structure! {
    /// The argument of NOTIFY (`stat_chge`).
    pub struct NotifyArguments<'a> {
        /// The machine that has restarted; at most [`NAME_BYTES_MAX`] bytes.
        pub name: &'a [u8] = NAME_BYTES_MAX,
        /// Its state number: odd while it runs, larger after each restart.
        pub state: i32,
    }
}
