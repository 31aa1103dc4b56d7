//! The cost of a pass grows with the difference, not with the data.

use archipel_base::clock::DAY_MS;

use super::*;

/// Creates two stores with the same rows, spread over 60 days and 16 partitions, and then adds rows
/// of the last hour to one of them. Returns the calls and bytes of a pass that finds nothing, and
/// of one that pulls the difference.
async fn cost(rows: u64, more: u64, seed: u64) -> [(u64, u64); 2] {
    let world = three(seed).await;
    let (a, b) = (&world.nodes[0], &world.nodes[1]);
    let begin = a.now_ms() - 60 * DAY_MS;
    let row = |name: &str, n: u64| RowKey {
        partition: PartitionId(n as u16 % 16),
        key: Bytes::from(format!("{name} {n}")),
    };
    let step = 59 * DAY_MS / rows;
    let all = (0..rows).map(|n| (row("row", n), stamp(begin + n * step)));
    let all: Vec<_> = all.collect();
    plant(a, all.clone()).await;
    plant(b, all).await;
    let counted = || {
        let status = b.upkeep().anti_entropy_status();
        (status.calls, status.call_bytes)
    };
    let options = AntiEntropyOptions::default();
    assert!(b.upkeep().pull_from(&world.ids[0], options).await.unwrap());
    let quiet = counted();
    let changed = (0..more).map(|n| (row("more", n), stamp(a.now_ms() - 1000)));
    plant(a, changed.collect()).await;
    assert!(b.upkeep().pull_from(&world.ids[0], options).await.unwrap());
    assert_eq!(b.upkeep().anti_entropy_status().rows, more);
    let all = counted();
    [quiet, (all.0 - quiet.0, all.1 - quiet.1)]
}

#[tokio::test(start_paused = true)]
async fn cost_of_a_pass_grows_with_the_difference() {
    let [quiet, some] = cost(5_000, 10, 5).await;
    assert_eq!(quiet.0, 1, "one call compares all partitions");
    assert!(quiet.1 < 16_000, "{quiet:?}");
    // One call for each: all partitions, months, days, hours, stamps, rows.
    assert_eq!(some.0, 6, "{some:?}");
    assert!(some.1 - quiet.1 < 24_000, "{some:?}");
    let [_, few] = cost(500, 10, 6).await;
    assert!(
        some.1 < few.1 + few.1 / 2,
        "10 times the rows: {some:?}, {few:?}"
    );
    let [_, many] = cost(500, 200, 7).await;
    assert!(many.1 > few.1, "20 times the difference: {many:?}, {few:?}");
    println!("quiet {quiet:?}; 10 of 5,000 {some:?}; 10 of 500 {few:?}; 200 of 500 {many:?}");
}
