//! Mounts of any source through FUSE: the front that Linux itself is the client of.
//!
//! ```text
//!   program ──> kernel: names, attributes, pages ──/dev/fuse──> reader ──> FileSystem
//!                                                                  └─would wait─> worker
//! ```
//!
//! The kernel keeps names, attributes and pages for as long as the source says
//! ([`pagewell_fs::Coherence`]), and judges permissions itself from the attributes that it gets
//! (`default_permissions`). The thread that receives a request answers it when nothing has to be
//! waited for. Else that thread waits, if another one is free to receive, or hands the call to a
//! worker: one thread always receives, so that a mount stays responsive when its storage does not
//! answer (`dispatch`). A program that is killed while it waits ends (`blocked`).
//!
//! Reading order: [`mount()`], `front::service` (requests as the kernel sends them), `front` (their
//! way to an answer), `opening`, `writing`, `privileges` and `listing` (what each does), `nodes`
//! and `handles` (what the kernel's numbers mean), `dispatch` and `blocked` (what waits),
//! `kernel_view` and `negotiation` (what the kernel keeps and does), then the rest.
//!
//! Decided, with reasons:
//! - *No writing late in the kernel* unless asked for: pages that only the kernel has are not in
//!   the source, so its other clients do not see them, and no call could report an error. Writes of
//!   up to 1 MiB go through at once.
//! - *Locks stay in the kernel*: they exclude programs of this machine only.
//! - *No splicing*: the kernel copies the bytes of a reply once, from where the cache has them
//!   (`reply`). Splicing would save that copy only by giving the pages away, and the cache keeps
//!   them. Files of directories are passed through instead, as root.
//! - *No io_uring transport*: the crate `fuser` has none, and it is off in kernels unless an
//!   administrator enables it.
//!
//! Known weaknesses, of the crate `fuser` 0.18: a request that sets a time some 292 thousand
//! million years ago ends the thread that received it (only users of the mount can send one); it
//! answers requests to interrupt with "not supported", so only a kill ends a program that waits.

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
