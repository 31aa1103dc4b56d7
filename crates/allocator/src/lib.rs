//! The memory allocator of the server's Rust code. Libraries in C (LMDB, zstd) use the system's.
//!
//! A program uses it by naming this crate: `use archipel_allocator as _;`. The compiler translates
//! the calls from Rust to the allocator in the crate that chooses it. The crate of the command line
//! is not optimised in all builds, so this one chooses.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The allocator's settings, which it reads before anything else runs. There are few heaps, because
/// each holds freed memory. Free memory returns to the system within a second, by a thread that
/// sleeps while there is none to return.
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8] = b"narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true\0";
