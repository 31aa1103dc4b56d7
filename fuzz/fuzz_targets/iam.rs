//! See [`archipel_fuzz::iam`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| archipel_fuzz::iam::run(bytes));
