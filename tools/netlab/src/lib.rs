//! Emulated networks of real processes on one machine, where the kernel has no `netem`.
//!
//! Each node is a network namespace with one interface, `eth0`. It is a TUN device whose other end one relay
//! holds: the relay reads packets, lets them wait as their link says, and hands them on. Who runs in a
//! namespace (a server, a browser, `iperf`) notices nothing but distance.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | the TOML file: sites, nodes, links; presets |
//! | [`link`] | one directed link: when a packet arrives, or why it does not: pure |
//! | [`network`] | all links and the packets on their way: pure |
//! | [`relay`] | the network driven by the clock and TUN devices |
//! | [`control`] | looking at a relay and changing it while it runs |
//! | [`lab`] | namespaces and relay brought up, found again, taken down |
//! | [`private`] | a lab that ends with its process, whatever happens to it |
//! | [`check`] | what the lab does beside what it was asked |
//! | [`sys`], `ip` | the few calls of the kernel; what the program `ip` does for us |
//!
//! # Invariants
//! - Links are directed; what one does has no influence on any other.
//! - Packets of a link leave in the order in which they came, unless it was asked to reorder.
//! - What is on its way is bounded; what finds no room is counted as lost.

pub mod check;
pub mod control;
mod ip;
pub mod lab;
pub mod link;
pub mod network;
pub mod private;
pub mod relay;
pub mod sys;
pub mod topology;

/// What goes wrong here is told to a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result with such an error.
pub type Outcome<T> = Result<T, Error>;
