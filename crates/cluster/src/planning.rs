//! From what is asked for to a layout: roles in, placement and plain words out.

use crate::layout::{Layout, PARTITIONS, Redundancy, Role};

/// The layout of these roles, as near to `current` as may be.
///
/// # Errors
/// A text for the operator, with value and fix.
pub(crate) fn layout(
    _current: &Layout,
    version: u64,
    redundancy: Redundancy,
    roles: Vec<Role>,
) -> Result<(Layout, Vec<String>), String> {
    let storage: Vec<u16> = (0..roles.len())
        .filter(|place| roles[*place].capacity_bytes > 0)
        .map(|place| place as u16)
        .collect();
    let replicas = usize::from(redundancy.replicas);
    if storage.len() < replicas {
        return Err(format!(
            "{replicas} replicas need as many storage nodes, and there are {}; fix: assign more nodes, or ask for fewer replicas",
            storage.len()
        ));
    }
    let mut assignment = Vec::new();
    for partition in 0..usize::from(PARTITIONS) {
        for n in 0..replicas {
            assignment.push(storage[(partition + n) % storage.len()]);
        }
    }
    let odd = storage.len().min(7).saturating_sub(1) / 2 * 2 + 1;
    let layout = Layout {
        version,
        redundancy,
        control: storage[..odd].to_vec(),
        assignment,
        roles,
    };
    Ok((layout, Vec::new()))
}
