//! The general allocator, set to keep little.
//!
//! **Problem.** The C library gives a thread that finds others in the allocator a heap of its own,
//! up to eight for each processor. Tables that all threads fill and empty then lie spread over all
//! of these heaps, each of which stays as large as it ever was. And once a large piece was given
//! back, pieces of that size are cut from the heaps too: each step in the growth of a table leaves
//! a hole that nothing fits.
//!
//! **Rule.** Few heaps; what is at least [`MAPPED_ALONE_BYTES`] is mapped by itself, so that it
//! goes back to the system when it is freed; and what is free at the end of a heap goes back.
//!
//! **Known weakness.** Threads wait for each other in the allocator. What answers from memory
//! hardly uses it, and each thread has some small pieces of its own.

/// Heaps. A second one halves the waiting; each of more would cost some MiB.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;
/// Data on its way, at most 1 MiB of it in a piece, is taken and given back all the time: to map
/// it each time would cost more than the copy. Tables grow seldom.
#[cfg(target_env = "gnu")]
const MAPPED_ALONE_BYTES: libc::c_int = (1 << 20) + (64 << 10);
/// What may stay free at the end of a heap.
#[cfg(target_env = "gnu")]
const FREE_BYTES_MAX: libc::c_int = 2 << 20;

/// To be called before threads start.
#[cfg(target_env = "gnu")]
pub(crate) fn keep_little() {
    for (parameter, value) in [
        (libc::M_ARENA_MAX, HEAPS_MAX),
        (libc::M_MMAP_THRESHOLD, MAPPED_ALONE_BYTES),
        (libc::M_TRIM_THRESHOLD, FREE_BYTES_MAX),
    ] {
        // SAFETY: takes two numbers, and changes only how later calls choose. A refusal (0) leaves
        // everything as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Other allocators decide by themselves.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn keep_little() {}
