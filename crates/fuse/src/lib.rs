//! Mounts of any source through FUSE: the front that Linux itself is the client of.
//!
//! ```text
//!   program ──> kernel: names, attributes, pages ──/dev/fuse──> reader ──> FileSystem
//!                                                                  └─would wait─> worker
//! ```
//!
//! The kernel keeps names, attributes and pages for as long as the source says
//! ([`pagewell_fs::Coherence`]), and judges permissions itself from the attributes it is given
//! (`default_permissions`). What it asks for is answered by the thread that received the
//! question when nothing has to be waited for. Else that thread waits, if another one is free to
//! receive, or hands the call to a worker: a thread always receives, so that a storage which does
//! not answer cannot make the mount deaf (`dispatch`). A program that waits and is killed meanwhile
//! is let go (`blocked`).
//!
//! Reading order: [`mount()`] (a mount from outside), `front::service` (requests as the kernel
//! sends them), `front` (how they are answered), `opening`, `writing`, `privileges` and `listing` (what each does), `nodes` and `handles` (what the kernel's numbers mean), `dispatch`
//! and `blocked` (what waits), `kernel_view` and `negotiation` (what the kernel keeps and does),
//! `caller`, `passthrough`, `notify`, `invalidation`, `pruning`, `kernel_prefill`, `read_around`,
//! `reply`, `buffer_pool`.
//!
//! Decided, with reasons:
//! - *No writing late in the kernel* unless asked for: pages that only the kernel has are not in
//!   the source, so other clients of the source would not see them, and an error could be told to
//!   nobody. Writes of up to 1 MiB go through at once.
//! - *Locks stay in the kernel*: they exclude programs of this machine only.
//! - *No splicing*: the bytes of a reply are copied by the kernel once, from where the cache has
//!   them (`reply`). Splicing pages would save that copy only by giving the pages away, and the
//!   cache wants to keep them. Files of directories are passed through instead, as root.
//! - *No io_uring transport*: the crate `fuser` has none, and it is off in kernels unless an
//!   administrator enables it.
//!
//! Known weaknesses, of the crate `fuser` 0.18: a request that sets a time some 292 thousand
//! million years ago ends the thread that received it (only users of the mount can do that); it
//! answers requests to interrupt with "not supported", so a program that catches a signal waits
//! on, and only one that is killed is let go.

mod attach;
mod blocked;
mod buffer_pool;
mod busy;
mod caller;
mod convert;
mod dispatch;
mod front;
mod handles;
mod invalidation;
mod kernel_prefill;
mod kernel_view;
mod listing;
mod mount;
mod mounts;
mod negotiation;
mod nodes;
mod notify;
mod opening;
mod options;
mod passthrough;
mod privileges;
mod pruning;
mod read_around;
mod reply;
mod unmount;
mod writing;

pub use busy::{User, users_of};
pub use convert::Appearance;
pub use mount::{MountError, Mounted, mount};
pub use mounts::{Entry, mounted_on};
pub use options::Options;
pub use unmount::{UnmountError, unmount, unmount_entry};
