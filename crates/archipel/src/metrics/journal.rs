//! Metrics of the journal of metadata.

use std::fmt;

use archipel_storage::engine::JournalStatus;
use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, gauge};

/// Encodes the figures of a journal.
pub fn encode(
    journal: &JournalStatus,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let counters = [
        (
            "checkpoints",
            "Times when the journal's changes were brought to LMDB",
            journal.checkpoints,
        ),
        (
            "checkpoint_waits",
            "Times when a writer waited for a checkpoint",
            journal.waits,
        ),
        (
            "payloads_moved_bytes",
            "Bytes of payloads that were moved to free the space of others",
            journal.moved_value_bytes,
        ),
    ];
    for (name, about, value) in counters {
        counter(encoder, &format!("archipel_metadata_{name}"), about, value)?;
    }
    let gauges = [
        (
            "journal_memory_bytes",
            "Estimated memory of changes that are not in LMDB yet",
            journal.memory_bytes,
        ),
        (
            "payloads_bytes",
            "Bytes of the files of payloads beside the journal",
            journal.value_bytes,
        ),
        (
            "payloads_live_bytes",
            "Bytes in the files of payloads that are still needed",
            journal.live_value_bytes,
        ),
    ];
    for (name, about, value) in gauges {
        gauge(
            encoder,
            &format!("archipel_metadata_{name}"),
            about,
            value as f64,
        )?;
    }
    Ok(())
}
