//! Policies that the one in use is compared with, and what plays traces to any of them. The bench
//! has this file, too.

mod clock;
mod lru;
mod replay;
mod sieve;

pub use clock::Clock;
pub use lru::Lru;
pub use replay::Replay;
pub use sieve::Sieve;
