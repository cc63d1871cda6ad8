//! The general allocator, set to keep little.
//!
//! **Problem.** The C library gives a thread that finds others in the allocator a heap of its own,
//! up to eight for each processor. Tables that all threads fill and empty lie spread over these
//! heaps, each of which stays as large as it ever was. After a large piece was given back, pieces
//! of that size come from the heaps too, and each step in the growth of a table leaves a hole that
//! nothing fits.
//!
//! **Rule.** Few heaps. A piece larger than data on its way is mapped by itself, and goes back to
//! the system when it is freed. What is free at the end of a heap goes back.
//!
//! **Known weakness.** Threads wait for each other in the allocator. What answers from memory
//! hardly uses it.

/// Call it before threads start. Other allocators are left alone.
pub(crate) fn keep_little() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        // Heaps. A second one halves the waiting; each further one costs some MiB.
        (libc::M_ARENA_MAX, 2),
        // What is mapped by itself. Data on its way, at most 1 MiB in a piece, is taken and given
        // back all the time: a mapping for each would cost more than the copy. Tables grow seldom.
        (libc::M_MMAP_THRESHOLD, (1 << 20) + (64 << 10)),
        // What may stay free at the end of a heap.
        (libc::M_TRIM_THRESHOLD, 2 << 20),
    ] {
        // SAFETY: takes two numbers, and changes only how later calls choose. A refusal (0) changes
        // nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}
