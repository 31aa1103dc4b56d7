//! The model checker: small scenarios of the register, every interleaving.

pub mod catalogue;
pub mod scenario;
pub mod walk;
pub mod world;
