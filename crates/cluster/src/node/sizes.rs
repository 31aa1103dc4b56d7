//! The sizes of pages, messages and transactions.

/// The sizes of pages, messages and transactions.
///
/// No promise may depend on these numbers. The simulator draws them, so that boundaries between
/// pages and transactions fall everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Rows that a scan reads at once.
    pub scanned_rows: usize,
    /// Bytes of pages after which an answer to a listing ends.
    pub listed_bytes: usize,
    /// Rows for which a replica remembers accepted writes.
    pub remembered_rows: usize,
    /// Rows that background work handles before it pauses for clients.
    pub unit_rows: usize,
    /// Keys that a rebalance or a verification lists at once.
    pub listed_keys: usize,
    /// Rows that a rebalance moves before it asks what is left.
    pub moved_rows: usize,
    /// Partitions that anti-entropy compares in one transaction.
    pub compared_partitions: usize,
    /// Partitions that anti-entropy looks into at once.
    pub differing_partitions: usize,
    /// Windows of one message: at most 64.
    pub windows: usize,
    /// Stamps of one message: at most 2000.
    pub stamps: usize,
    /// Rows that anti-entropy pulls with one message: at most 256.
    pub pulled_rows: usize,
    /// Rows that the garbage collection of tombstones reads at once.
    pub collected_rows: usize,
}

impl Sizes {
    /// The sizes of the product.
    pub const USUAL: Sizes = Sizes {
        scanned_rows: 1000,
        listed_bytes: 128 << 10,
        remembered_rows: 4096,
        unit_rows: 8,
        listed_keys: 1000,
        moved_rows: 32,
        compared_partitions: 128,
        differing_partitions: 32,
        windows: 64,
        stamps: 2000,
        pulled_rows: 256,
        collected_rows: 500,
    };

    /// Returns sizes that `draw` changes. It gets the usual size, and returns another one, which is
    /// at least 1 and at most the usual size.
    pub fn drawn(mut draw: impl FnMut(usize) -> usize) -> Sizes {
        let mut size = |usual: usize| draw(usual).clamp(1, usual);
        let usual = Sizes::USUAL;
        Sizes {
            scanned_rows: size(usual.scanned_rows),
            listed_bytes: size(usual.listed_bytes),
            // Two generations, each of at least one row.
            remembered_rows: size(usual.remembered_rows).max(2),
            unit_rows: size(usual.unit_rows),
            listed_keys: size(usual.listed_keys),
            moved_rows: size(usual.moved_rows),
            compared_partitions: size(usual.compared_partitions),
            differing_partitions: size(usual.differing_partitions),
            windows: size(usual.windows),
            stamps: size(usual.stamps),
            pulled_rows: size(usual.pulled_rows),
            collected_rows: size(usual.collected_rows),
        }
    }
}
