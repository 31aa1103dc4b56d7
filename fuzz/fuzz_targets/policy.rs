//! See [`archipel_fuzz::policy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| archipel_fuzz::policy::run(bytes));
