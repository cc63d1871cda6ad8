//! How one `pagewell` asks another on this machine: what it counts, and whether all was written
//! when its mount ended.
//!
//! Every server and mount listens on an abstract socket `pagewell/PID/KIND` (unix(7)): it leaves
//! no file behind, and `/proc/net/unix` lists all of them. Both ends ask the kernel for the other
//! one's user: a server answers its own user and root, `umount` believes the mount's user and
//! root only, and `counters` these, or the process that it asks, so that a name that another user
//! has taken is of no use.
//!
//! After that last line the process of the mount closes what it served and ends; `umount` waits for
//! that, too, with a descriptor of the process that it opened before it asked (pidfd_open(2)).
//!
//! ```text
//!   "stat\n" -> the document of /stat.json
//!   "end\n"  -> twice a second "used\n" while the kernel has users of the mount, then
//!               "left BYTES\n", at last "done\n" or "lost REASON\n"
//! ```

mod client;
mod server;

pub use client::{Ended, Ending, Peer, ending_of, peers};
pub use server::Control;

/// How names begin.
const PREFIX: &str = "pagewell/";
