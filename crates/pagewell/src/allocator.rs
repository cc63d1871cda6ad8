//! The general allocator, set to keep little.
//!
//! **Problem.** The C library gives threads that meet in the allocator heaps of their own, up to
//! eight for each processor. Tables that all threads fill and empty lie spread over these, each of
//! which stays as large as it ever was. After a large piece was given back, such pieces come from
//! the heaps too, and each growth of a table leaves a hole.
//!
//! **Rule.** Few heaps. A piece larger than data on its way is mapped by itself, and goes back to
//! the system. So does what is free at the end of a heap.
//!
//! **Known weakness.** Threads wait for each other in the allocator. What answers from memory
//! hardly uses it.

/// Call it before threads start. Other allocators are left alone.
pub(crate) fn keep_little() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        // Heaps. A second one halves the waiting; each further one costs some MiB.
        (libc::M_ARENA_MAX, 2),
        // What is mapped by itself. For data on its way, at most 1 MiB in a piece, a mapping would
        // cost more than the copy.
        (libc::M_MMAP_THRESHOLD, (1 << 20) + (64 << 10)),
        // What may stay free at the end of a heap.
        (libc::M_TRIM_THRESHOLD, 2 << 20),
    ] {
        // SAFETY: takes two numbers, and changes only how later calls choose. A refusal (0) changes
        // nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}
