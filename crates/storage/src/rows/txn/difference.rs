//! The blocks that a row refers to, before and after a change.

use std::collections::BTreeMap;

use crate::row::{BlockRef, Row};

/// The references that a row gains and loses. A block in both the old and the new row keeps its
/// reference.
pub(super) struct Difference {
    pub gained: Vec<BlockRef>,
    pub lost: Vec<BlockRef>,
    pub absent: AbsentBlocks,
}

/// The treatment of blocks that a row gains and that are not on this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AbsentBlocks {
    Refuse,
    Accept,
}

impl Difference {
    pub fn between(old: &[BlockRef], new: &Row, absent: AbsentBlocks) -> Difference {
        let new = new.value.as_ref().map_or(&[][..], |v| v.payload.blocks());
        let mut mentions: BTreeMap<[u8; 32], i64> = BTreeMap::new();
        for block in old {
            *mentions.entry(block.hash.0).or_default() += 1;
        }
        let mut gained = Vec::new();
        for block in new {
            let left = mentions.entry(block.hash.0).or_default();
            *left -= 1;
            if *left < 0 {
                gained.push(*block);
            }
        }
        let mut lost = Vec::new();
        for block in old {
            let left = mentions.entry(block.hash.0).or_default();
            if *left > 0 {
                *left -= 1;
                lost.push(*block);
            }
        }
        Difference {
            gained,
            lost,
            absent,
        }
    }
}
