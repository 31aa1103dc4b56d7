//! See [`archipel_fuzz::store`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| archipel_fuzz::store::run(bytes));
