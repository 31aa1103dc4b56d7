//! The whole door on a model in memory: requests go in signed, answers come out.

mod client;
mod connections;
mod objects;
mod refusals;
mod uploads;
