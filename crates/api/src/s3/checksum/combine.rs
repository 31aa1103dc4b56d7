//! The checksum of a multipart object, from those of its parts.

use archipel_model::{Checksum, ChecksumKind};
use crc_fast::CrcAlgorithm;

use super::hasher::{crc_algorithm, crc_bytes};
use super::{Algorithm, Value};

/// Returns the checksum of the parts' checksums, with `-N` behind it.
pub fn composite(algorithm: Algorithm, parts: &[Value]) -> Checksum {
    let all: Vec<u8> = parts.iter().flat_map(|part| part.bytes.clone()).collect();
    let value = Value::of(algorithm, &all);
    Checksum {
        value: format!("{}-{}", value.to_base64(), parts.len()),
        kind: ChecksumKind::Composite,
        ..value.stored()
    }
}

/// Returns the checksum of the whole, computed from the parts' values and sizes without reading
/// them.
///
/// Returns `None` for an algorithm that cannot be combined so, or if there is no part.
pub fn full_object(algorithm: Algorithm, parts: &[(Value, u64)]) -> Option<Value> {
    let crc: CrcAlgorithm = crc_algorithm(algorithm)?;
    let mut numbers = parts.iter().map(|(value, size)| (number(value), *size));
    let (first, _) = numbers.next()?;
    let all = numbers.fold(first, |sum, (part, size)| {
        crc_fast::checksum_combine(crc, sum, part, size)
    });
    Some(Value {
        algorithm,
        bytes: crc_bytes(algorithm, all),
    })
}

fn number(value: &Value) -> u64 {
    value
        .bytes
        .iter()
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}
