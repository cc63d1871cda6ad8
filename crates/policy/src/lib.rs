//! Read-ahead, elevator, eviction, write-back, polling, limits and the cache of replies as pure
//! state machines, without a clock, threads, I/O or randomness.
//!
//! Events and the time come in, actions go out; time is a [`std::time::Duration`] since any fixed
//! moment. So every policy is tested by properties and by simulation in virtual time.
//!
//! - [`readahead`]: which bytes will be wanted next?
//! - [`elevator`]: in which order, and in which pieces, does a device get its requests?
//! - [`eviction`]: which page goes when another needs its place?
//! - [`writeback`]: which dirty bytes are written when, and how fast may writers go?
//! - [`polling`]: how long does a thread look for work before it sleeps?
//! - [`limits`]: how long must a client wait that has had more than it may?
//! - [`reply_cache`]: is a call that changes something new, or was it done before?

pub mod elevator;
pub mod eviction;
pub mod limits;
pub mod polling;
pub mod readahead;
pub mod reply_cache;
pub mod writeback;
