//! The program as its users run it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "what a test cannot do makes it fail"
)]

mod bad_input;
mod copying;
mod documents;
mod images;
mod measuring;
mod reading;
mod serving;
mod support;
