//! The server as clients see it: each test speaks to a running server over TCP.
//!
//! The heads of files name the sections of the RFCs that their tests hold. [`client`] is a client
//! that checks each reply to its last byte, [`fixture`] starts servers in this process,
//! [`process`] one in a process of its own that can be killed and measured, [`layer`] file
//! systems that stall, fail and count.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod every_call;
mod million;

mod admission;
mod attributes;
mod creation;
mod cut_short;
mod duplicates;
mod durability;
mod faults;
mod handles;
mod hostile;
mod images;
mod late;
mod limits;
mod listing;
mod locks;
mod mounting;
mod names;
mod port_mapper;
mod pressure;
mod protocol;
mod pseudo;
mod reading;
mod replacing;
mod rights;
mod rpc_client;
mod slow;

use pagewell_wire::{client, fixture, layer, operations, pages, process};

/// Not a test: what [`process::Process`] starts.
#[test]
fn serve_as_child() {
    process::serve_as_child();
}
