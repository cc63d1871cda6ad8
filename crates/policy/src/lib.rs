//! Policies as pure state machines: events and the time come in, actions go out.
//!
//! No clock, threads, I/O or randomness, so each is tested by properties and by simulation in
//! virtual time. Time is a [`std::time::Duration`] since any fixed moment.
//!
//! - [`readahead`]: which bytes will be wanted next?
//! - [`elevator`]: in which order and pieces does a device get its requests?
//! - [`eviction`]: which page goes when another needs its place?
//! - [`writeback`]: which dirty bytes are written when, and how fast may writers go?
//! - [`polling`]: how long does a thread look for work before it sleeps?
//! - [`limits`]: how long must a client wait that has had more than it may?
//! - [`reply_cache`]: is a call that changes something new, or a repetition?

pub mod elevator;
pub mod eviction;
pub mod limits;
pub mod polling;
pub mod readahead;
pub mod reply_cache;
pub mod writeback;
