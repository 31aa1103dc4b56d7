//! Anti-entropy between nodes on a simulated network.

use std::time::Duration;

use archipel_base::{Id, PartitionId};
use archipel_storage::{Row, RowKey, Value};
use bytes::Bytes;

use super::AntiEntropyOptions;
use crate::cluster::Cluster;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::upkeep::tests::*;

mod cost;
mod damaged;
mod driver;
mod ends;
mod rows;
mod schedule;
mod trickle;
