//! Placement from 3 to 1000 nodes: the time, the usable capacity against the upper bound, and the
//! data moved against the lower bound when one node comes and when one leaves. `cargo xtask
//! placement` runs it.

use std::time::{Duration, Instant};

use archipel_base::NodeId;
use archipel_cluster::placement::{Candidate, Goal, Placement, Previous, Zones, place};

const TB: u64 = 1_000_000_000_000;

/// The zones and sizes of nodes.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// The largest number of zones.
    zones: u16,
    /// A node's capacity in TB, by its number.
    capacity: fn(u16) -> u64,
    partitions: u16,
    replicas: usize,
}

const SHAPES: [Shape; 6] = [
    Shape {
        name: "equal nodes, 3 zones",
        zones: 3,
        capacity: |_| 4,
        partitions: 1024,
        replicas: 3,
    },
    Shape {
        name: "1 to 8 TB, 5 zones",
        zones: 5,
        capacity: |number| 1 + u64::from(number * 5 % 8),
        partitions: 1024,
        replicas: 3,
    },
    Shape {
        name: "1 to 8 TB, each its own zone",
        zones: u16::MAX,
        capacity: |number| 1 + u64::from(number * 5 % 8),
        partitions: 1024,
        replicas: 3,
    },
    Shape {
        name: "1 to 8 TB, 5 zones, 5 replicas",
        zones: 5,
        capacity: |number| 1 + u64::from(number * 5 % 8),
        partitions: 1024,
        replicas: 5,
    },
    Shape {
        name: "1 to 8 TB, 5 zones, 4096 partitions",
        zones: 5,
        capacity: |number| 1 + u64::from(number * 5 % 8),
        partitions: 4096,
        replicas: 3,
    },
    Shape {
        name: "equal nodes, 3 zones, 16384 partitions",
        zones: 3,
        capacity: |_| 4,
        partitions: 16_384,
        replicas: 3,
    },
];

fn main() {
    for shape in SHAPES {
        println!("{} ({} replicas)", shape.name, shape.replicas);
        println!(
            "{:>6} {:>8} {:>10} {:>9} | {:>8} {:>7} {:>7} {:>7} | {:>8} {:>7} {:>7} {:>7}",
            "nodes",
            "time s",
            "usable TB",
            "of bound",
            "add: s",
            "moved",
            "bound",
            "of all",
            "drop: s",
            "moved",
            "bound",
            "of all",
        );
        for count in [3, 5, 10, 30, 100, 300, 1000] {
            if usize::from(count) >= shape.replicas {
                measure(&shape, count);
            }
        }
        println!();
    }
}

/// Prints one line: a cluster of `count` nodes, one node more, and one less.
fn measure(shape: &Shape, count: u16) {
    let goal = Goal {
        partitions: shape.partitions,
        replicas: shape.replicas,
        zones: Zones::Maximum,
    };
    let nodes: Vec<Candidate> = (0..count).map(|number| node(shape, number)).collect();
    let (first, time) = timed(|| place(&nodes, &goal, None));
    let change = |after: Vec<Candidate>| {
        let previous = Previous {
            nodes: &nodes,
            assignment: &first.assignment,
        };
        timed(|| place(&after, &goal, Some(&previous)))
    };
    print!(
        "{count:>6} {:>8.3} {:>10.1} {:>8.1}% |",
        time.as_secs_f64(),
        first.usable_bytes as f64 / TB as f64,
        first.usable_bytes as f64 / first.upper_bound_bytes as f64 * 100.0,
    );
    let more = nodes.iter().cloned().chain([node(shape, count)]).collect();
    let (added, time) = change(more);
    print!("{} |", moves(&added, time));
    if nodes.len() > shape.replicas {
        let (removed, time) = change(nodes[1..].to_vec());
        print!("{}", moves(&removed, time));
    }
    println!();
}

fn moves(placement: &Placement, time: Duration) -> String {
    format!(
        " {:>8.3} {:>7} {:>7} {:>6.2}%",
        time.as_secs_f64(),
        placement.moved,
        placement.moved_lower_bound,
        placement.moved as f64 / placement.assignment.places().len() as f64 * 100.0,
    )
}

fn node(shape: &Shape, number: u16) -> Candidate {
    let mut id = [0; 32];
    id[..2].copy_from_slice(&number.to_be_bytes());
    Candidate {
        id: NodeId(id),
        zone: format!("z{}", number % shape.zones),
        capacity_bytes: (shape.capacity)(number) * TB,
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed<E: std::fmt::Display>(
    work: impl FnOnce() -> Result<Placement, E>,
) -> (Placement, Duration) {
    let start = Instant::now();
    match work() {
        Ok(placement) => (placement, start.elapsed()),
        Err(error) => panic!("{error}"),
    }
}
