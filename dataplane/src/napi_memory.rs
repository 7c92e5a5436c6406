//! The allocator's free pages, for whoever knows that a burst of work is over.

#![cfg_attr(test, allow(dead_code))]
use crate::memory::give_back;
use napi_derive::napi;

/// Gives back to the kernel what the whole process has freed; about a millisecond.
#[napi]
pub fn give_back_memory() {
    give_back();
}
