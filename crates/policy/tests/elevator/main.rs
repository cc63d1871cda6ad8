//! The elevator against its specification: random schedules, fuzzing, and media in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod choices;
mod media;
mod model;
mod schedule;
mod schedules;
mod streams;
