//! The program as its users run it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "what a test cannot do makes it fail"
)]

mod as_cp;
mod as_user;
mod bad_input;
mod clients;
mod configuration;
mod containers;
mod copying;
mod copying_many;
mod discs;
mod documents;
mod everyday;
mod folding;
mod hostile;
mod images;
mod left_behind;
mod logging;
mod managed;
mod mounting;
mod page;
mod reading;
mod refusals;
mod remote;
mod sandbox;
mod serving;
mod support;
mod tracks;
mod unrecognised;
mod watching;
mod writing;

use pagewell_wire::{client, operations};
