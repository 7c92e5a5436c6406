//! The target `stack` for libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xylem_dataplane::fuzz_targets::stack(bytes));
