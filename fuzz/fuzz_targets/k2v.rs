//! See [`archipel_fuzz::k2v`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| archipel_fuzz::k2v::run(bytes));
