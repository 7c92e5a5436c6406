//! Gives freed memory back to the kernel: malloc_trim(3).

/// Gives back whole pages that nobody uses. The allocator keeps what each thread freed for that thread,
/// and Node's pool runs `set` on any of its threads: without this each would hold a copy's worth.
/// Takes about a millisecond, so it is for rare and large changes.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
