//! Returning the free memory of the general allocator to the system.
//!
//! It takes some milliseconds, during which other threads wait for memory: worth it after many
//! frees.

/// Needs to hold no locks.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    // SAFETY: takes a number of bytes to keep at the end of the heap, and touches only memory that
    // is free.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators decide by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
