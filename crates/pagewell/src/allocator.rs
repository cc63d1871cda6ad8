//! The general allocator, set to keep little.
//!
//! **Problem.** The C library gives a thread that finds others in the allocator a heap of its own,
//! up to eight for each processor. Tables that all threads fill and empty then lie spread over all
//! of these heaps, each of which stays as large as it ever was. And once a large piece was given
//! back, pieces of that size are cut from the heaps too: each step in the growth of a table leaves
//! a hole that nothing fits.
//!
//! **Rule.** Few heaps; what is larger than data on its way is mapped by itself, so that it
//! goes back to the system when it is freed; and what is free at the end of a heap goes back.
//!
//! **Known weakness.** Threads wait for each other in the allocator. What answers from memory
//! hardly uses it, and each thread has some small pieces of its own.

/// To be called before threads start. Other allocators decide by themselves.
pub(crate) fn keep_little() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        // Heaps. A second one halves the waiting; each of more would cost some MiB.
        (libc::M_ARENA_MAX, 2),
        // What is mapped by itself. Data on its way, at most 1 MiB of it in a piece, is taken and
        // given back all the time: to map it each time would cost more than the copy. Tables grow
        // seldom.
        (libc::M_MMAP_THRESHOLD, (1 << 20) + (64 << 10)),
        // What may stay free at the end of a heap.
        (libc::M_TRIM_THRESHOLD, 2 << 20),
    ] {
        // SAFETY: takes two numbers, and changes only how later calls choose. A refusal (0) leaves
        // everything as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}
