//! The client against servers that follow a script: they answer late, twice, wrongly, in pieces or
//! not at all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod script;

mod chopped;
mod further;
mod hostile;
mod mounting;
mod patience;
mod reconnecting;
mod sending;
