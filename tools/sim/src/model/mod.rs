//! The model checker: every interleaving of small scenarios of the register.

pub mod catalogue;
pub mod floor;
pub mod scenario;
pub mod uploads;
pub mod versions;
pub mod walk;
pub mod world;
