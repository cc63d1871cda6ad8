//! Questions between `pagewell` processes of a machine.
//!
//! Every server and mount listens on an abstract socket `pagewell/PID/KIND` (unix(7)): it leaves no
//! file, and `/proc/net/unix` lists all. Both ends ask the kernel for the other's user: a server
//! answers its own user and root, `umount` trusts the mount's user and root only, and `counters`
//! these, or the process that it asks.
//!
//! After its last line the process of the mount ends; `umount` waits for that, too, with a
//! descriptor that it opened before the question (pidfd_open(2)).
//!
//! ```text
//!   "stat\n" -> the document of /stat.json
//!   "disconnect ADDRESS\n" -> how many connections of that client were ended
//!   "reload\n" -> when the configuration was read again, "done LINE\n" or "refused LINE\n"
//!   "end\n"  -> twice a second "used\n" while the kernel has users of the mount, then
//!               "left BYTES\n", at last "done\n", "lost REASON\n", or "kept BYTES\n" of
//!               what is durable on this machine and not yet where it belongs
//! ```

mod client;
mod server;

use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::process::{Pid, Uid};

pub use client::{Ended, Ending, Peer, ending_of, peers};
pub use server::{Control, Reload};

/// The start of all names.
const PREFIX: &str = "pagewell/";

/// The kernel's view of the other end.
struct OtherEnd {
    user: Uid,
    /// `None` outside this namespace of processes.
    process: Option<Pid>,
}

/// rustix cannot represent process 0, which stands for one in another namespace.
fn other_end(stream: &UnixStream) -> std::io::Result<OtherEnd> {
    let credentials = getsockopt(stream, PeerCredentials)?;
    Ok(OtherEnd {
        user: Uid::from_raw(credentials.uid()),
        process: Pid::from_raw(credentials.pid()),
    })
}
