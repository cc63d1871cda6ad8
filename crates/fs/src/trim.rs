//! The general allocator, told to hand back to the system what is free in it.
//!
//! It takes some milliseconds, during which others wait for memory: worth it after much was freed.

/// To be called without locks.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    // SAFETY: takes a number of bytes to keep at the end of the heap, and touches only memory that
    // is free.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators decide by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
