//! Returns the allocator's free memory to the system. Other threads wait for memory some
//! milliseconds: worth it after many frees.

/// Needs no locks.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    // SAFETY: takes how many bytes to keep at the end of the heap, and touches only free memory.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators decide by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
