//! Whole clusters in one process, seeded, with faults; and the model checker.
//!
//! | module | what it holds |
//! |---|---|
//! | [`linear`] | a checker of linearizability |
//! | [`model`] | the register's state machines, all interleavings of small scenarios (`stateright`) |
//!
//! Both run the very code of `archipel_cluster::register`.

pub mod cluster;
pub mod linear;
pub mod model;
pub mod nodes;
pub mod rng;
