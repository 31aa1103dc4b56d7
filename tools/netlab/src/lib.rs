//! Emulated networks of real processes on one machine, where the kernel has no `netem`.
//!
//! Each node is a network namespace with one interface, `eth0`. The interface is a TUN device, and
//! a relay holds the other end of all devices. The relay reads packets, delays them as their link
//! requires, and delivers them. A process in a namespace (a server, a browser, `iperf`) notices
//! nothing but the distance.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | the TOML file: sites, nodes, links; presets |
//! | [`link`] | one directed link: the arrival or the loss of a packet; pure |
//! | [`network`] | all links and the packets on their way; pure |
//! | [`relay`] | the network driven by the clock and TUN devices |
//! | [`control`] | the control of a running relay |
//! | [`lab`] | creating, finding and removing namespaces and relay |
//! | [`private`] | a lab that ends with its process in any case |
//! | [`check`] | measurement of a lab beside the request |
//! | [`sys`], `ip` | a few system calls; the program `ip` |
//!
//! # Invariants
//! - Links are directed and independent of one another.
//! - Packets of a link leave in the order of their arrival, unless reordering was requested.
//! - The number of packets on their way is limited. Packets beyond the limit count as lost.

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

/// An error message for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result with such an error.
pub type Outcome<T> = Result<T, Error>;
