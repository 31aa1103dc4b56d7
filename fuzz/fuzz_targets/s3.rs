//! See [`archipel_fuzz::s3`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| archipel_fuzz::s3::run(bytes));
