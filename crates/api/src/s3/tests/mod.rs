//! The whole endpoint on a model in memory: requests go in signed, answers come out.

mod access;
mod blocked;
mod breaks;
pub mod client;
mod connections;
mod control;
mod deletions;
mod disclosure;
mod encryption;
mod evasions;
mod hoisted;
mod late;
mod lifecycle;
mod listen;
mod lists;
mod locks;
mod names;
mod objects;
mod refusals;
mod settings;
mod tagging;
mod uploads;
mod versions;
mod website;
mod writes;
