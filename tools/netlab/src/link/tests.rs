//! Tests of links with exact numbers.

use super::*;

const MS: Nanos = 1_000_000;

fn quality() -> Quality {
    Quality {
        latency: 50 * MS,
        ..Quality::default()
    }
}

/// Returns the times of packets that enter `apart` from one another and arrive. Lost packets are
/// omitted.
fn arrivals(link: &mut Link, count: u64, apart: Nanos, bytes: u64) -> Vec<(Nanos, Nanos)> {
    let mut arrived = Vec::new();
    for number in 0..count {
        let now = 1_000 * MS + number * apart;
        if let Fate::Arrives(at) = link.send(now, bytes) {
            arrived.push((now, at));
        }
    }
    arrived
}

#[test]
fn plain_link_has_no_latency() {
    let mut link = Link::new(Quality::default(), 1);
    assert_eq!(link.send(7, 1500), Fate::Arrives(7));
}

#[test]
fn latency_is_exact() {
    let mut link = Link::new(quality(), 1);
    assert_eq!(link.send(7, 1500), Fate::Arrives(7 + 50 * MS));
}

#[test]
fn jitter_keeps_bounds_mean_and_packet_order() {
    let jitter = 10 * MS;
    let mut link = Link::new(
        Quality {
            jitter,
            ..quality()
        },
        1,
    );
    let arrived = arrivals(&mut link, 200_000, MS / 5, 100);
    let ways: Vec<f64> = arrived
        .iter()
        .map(|(sent, at)| (at - sent) as f64 / 1e6)
        .collect();
    assert!(ways.iter().all(|ms| (40.0..=60.0).contains(ms)));
    let mean = ways.iter().sum::<f64>() / ways.len() as f64;
    assert!((mean - 50.0).abs() < 0.7, "{mean}");
    let variance = ways.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / ways.len() as f64;
    assert!((variance.sqrt() - 4.71).abs() < 0.4, "{variance}");
    assert!(arrived.windows(2).all(|pair| pair[0].1 <= pair[1].1));
}

#[test]
fn rate_limit_spaces_packets_and_a_full_queue_loses_them() {
    let rate = Quality {
        rate_bits: 12_000_000,
        queue_bytes: 15_000,
        ..quality()
    };
    let mut link = Link::new(rate, 1);
    let arrived = arrivals(&mut link, 100, 0, 1500);
    assert_eq!(arrived.len(), 10, "ten packets fill the queue");
    let gaps = arrived.windows(2).map(|pair| pair[1].1 - pair[0].1);
    assert!(
        gaps.into_iter().all(|gap| gap == MS),
        "1500 bytes take 1 ms"
    );
    assert_eq!(link.counters.queue, 90);
}

#[test]
fn rate_limit_holds_over_time() {
    let rate = Quality {
        rate_bits: 5_000_000,
        queue_bytes: 62_500,
        ..Quality::default()
    };
    let mut link = Link::new(rate, 1);
    let arrived = arrivals(&mut link, 10_000, MS, 1500);
    let (first, last) = (arrived[0].1, arrived[arrived.len() - 1].1);
    let bits = (arrived.len() - 1) as f64 * 12_000.0;
    let mbit = bits / ((last - first) as f64 / 1e9) / 1e6;
    assert!((mbit - 5.0).abs() < 0.01, "{mbit}");
}

#[test]
fn single_packet_larger_than_the_queue_passes() {
    let rate = Quality {
        rate_bits: 8_000,
        queue_bytes: 10,
        ..Quality::default()
    };
    let mut link = Link::new(rate, 1);
    assert_eq!(link.send(0, 1000), Fate::Arrives(1_000 * MS));
    assert_eq!(link.send(1, 1000), Fate::Lost(Why::Queue));
}

#[test]
fn random_loss_has_its_share_and_repeats_by_seed() {
    let loss = Quality {
        loss: 0.01,
        ..quality()
    };
    let run = |seed| arrivals(&mut Link::new(loss, seed), 100_000, MS, 100);
    let lost = 100_000 - run(1).len();
    assert!((900..1100).contains(&lost), "{lost}");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn reordered_packets_are_overtaken() {
    let reorder = Quality {
        reorder: 0.1,
        ..quality()
    };
    let mut link = Link::new(reorder, 1);
    let arrived = arrivals(&mut link, 10_000, MS, 100);
    let late = arrived
        .iter()
        .filter(|(sent, at)| at - sent == 75 * MS)
        .count();
    assert!((900..1100).contains(&late), "{late}");
    assert!(
        arrived
            .iter()
            .all(|(sent, at)| [50 * MS, 75 * MS].contains(&(at - sent)))
    );
}

#[test]
fn cut_link_loses_all_packets_until_the_cut_ends() {
    let mut link = Link::new(quality(), 1);
    link.is_cut = true;
    assert_eq!(link.send(0, 100), Fate::Lost(Why::Cut));
    link.is_cut = false;
    assert_eq!(link.send(0, 100), Fate::Arrives(50 * MS));
    assert_eq!((link.counters.packets, link.counters.cut), (2, 1));
}

#[test]
fn packets_keep_their_order_when_the_latency_falls() {
    let mut link = Link::new(quality(), 1);
    let Fate::Arrives(first) = link.send(0, 100) else {
        panic!("the packet was lost");
    };
    link.quality.latency = MS;
    assert_eq!(link.send(1, 100), Fate::Arrives(first));
}
