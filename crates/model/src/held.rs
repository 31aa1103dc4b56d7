//! The operations that replicas refuse, so that a protected version stays: see
//! [`lock`](crate::lock).

use archipel_base::codec;
use archipel_storage::Value;

use crate::lock::Taking;
use crate::object::ObjectHead;
use crate::version::VersionId;

/// Encodes the change of a version that its replicas must permit.
pub fn taking(what: Taking, id: VersionId) -> archipel_cluster::Taking {
    archipel_cluster::Taking {
        from: id.at(),
        what: codec::encode(&what).into(),
    }
}

/// Returns true if a version does not permit what an operation would take from it, or if either
/// cannot be read.
pub fn refuses(version: &Value, what: &[u8], now_ms: u64) -> bool {
    let lock = codec::decode::<ObjectHead>(&version.metadata).map(|head| head.lock);
    let (Ok(lock), Ok(what)) = (lock, codec::decode::<Taking>(what)) else {
        return true;
    };
    match what {
        Taking::Version { governance } => lock.protects(now_ms, governance),
        Taking::Retention { new, governance } => !lock.may_become(new, now_ms, governance),
    }
}
