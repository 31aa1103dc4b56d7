//! Whole clusters in one process, seeded, with faults, and the model checker.
//!
//! | module | what it holds |
//! |---|---|
//! | [`linear`] | a checker of linearizability |
//! | [`model`] | explores all interleavings of small scenarios of the register's state machines (`stateright`) |
//! | [`cluster`] | clusters of the register's state machines, in virtual time |
//! | [`nodes`] | clusters of whole nodes, in virtual time |
//! | [`verdict`] | the verdict of a run of either kind of clusters |
//! | [`rng`] | seeded pseudo-random numbers |
//!
//! The model and both kinds of clusters run the code of `archipel_cluster::register` itself.

pub mod cluster;
pub mod linear;
pub mod model;
pub mod nodes;
pub mod rng;
pub mod verdict;
