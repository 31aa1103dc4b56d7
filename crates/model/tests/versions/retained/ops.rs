//! The operations of the property.

use super::*;

#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// With a retention of so many seconds, or with the bucket's default.
    Put(usize, Option<(RetentionMode, u64)>),
    /// An upload in parts.
    Upload(usize, Option<(RetentionMode, u64)>),
    /// A copy of the current version onto another key, with a legal hold.
    Copy(usize, bool),
    Delete(usize),
    DeleteVersion(usize, usize, Governance),
    LegalHold(usize, usize, bool),
    Retain(usize, usize, Option<(RetentionMode, u64)>, Governance),
    Default(Option<RetentionMode>),
    /// So many seconds pass.
    Pass(u64),
    /// The clock of this node is wrong from now on, by so many milliseconds more than the least.
    Jump(usize, u64),
    Cut(usize),
    EndCuts,
    /// Rules walk the bucket on all nodes.
    Expire,
}

pub fn op() -> impl Strategy<Value = (usize, Op)> {
    let key = || 0..KEYS.len();
    let mode = || {
        prop_oneof![
            Just(RetentionMode::Governance),
            Just(RetentionMode::Compliance)
        ]
    };
    let until = || prop::option::of((mode(), prop_oneof![1..100u64, 1..300_000u64]));
    let pass = prop_oneof![1..60u64, 1..200_000u64];
    let op = prop_oneof![
        4 => (key(), until()).prop_map(|(key, until)| Op::Put(key, until)),
        1 => (key(), until()).prop_map(|(key, until)| Op::Upload(key, until)),
        1 => (key(), any::<bool>()).prop_map(|(key, hold)| Op::Copy(key, hold)),
        1 => key().prop_map(Op::Delete),
        6 => (key(), 0..5usize, any::<bool>())
            .prop_map(|(key, at, bypass)| Op::DeleteVersion(key, at, bypass.into())),
        2 => (key(), 0..5usize, any::<bool>()).prop_map(|(key, at, on)| Op::LegalHold(key, at, on)),
        3 => (key(), 0..5usize, until(), any::<bool>())
            .prop_map(|(key, at, until, bypass)| Op::Retain(key, at, until, bypass.into())),
        1 => prop::option::of(mode()).prop_map(Op::Default),
        3 => pass.prop_map(Op::Pass),
        2 => (0..3usize, 0..2 * WRONG_MS).prop_map(|(node, wrong)| Op::Jump(node, wrong)),
        1 => (0..3usize).prop_map(Op::Cut),
        1 => Just(Op::EndCuts),
        1 => Just(Op::Expire),
    ];
    (0..3usize, op)
}
