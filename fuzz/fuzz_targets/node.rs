//! See [`archipel_fuzz::node`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| archipel_fuzz::node::run(bytes));
