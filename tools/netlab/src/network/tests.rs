//! Tests of packets on their way through a network of several links.

use super::*;

const MS: Nanos = 1_000_000;

fn network() -> Network {
    let text = "name = 't'\n[between]\nrtt_ms = 10\n\
        [[sites]]\nname = 's1'\nnodes = ['a', 'b']\n[[sites]]\nname = 's2'\nnodes = ['c']\n\
        [[links]]\nfrom = 'c'\nto = 's1'\nquality = { rtt_ms = 2 }\n";
    Network::new(&Topology::parse(text).unwrap())
}

#[test]
fn packet_without_latency_is_delivered_at_once() {
    let mut network = network();
    assert_eq!(network.send(0, 0, 1, b"near"), Sent::Now);
    assert_eq!(network.next_due(), None);
}

#[test]
fn packets_arrive_in_the_order_of_their_arrival_times() {
    let mut network = network();
    assert_eq!(network.send(0, 0, 2, b"far"), Sent::Later);
    assert_eq!(network.send(0, 2, 0, b"back"), Sent::Later);
    assert_eq!(network.next_due(), Some(MS));
    assert!(network.arrive(MS - 1).is_none());
    let first = network.arrive(5 * MS).unwrap();
    assert_eq!((first.to, first.packet.as_slice()), (0, b"back".as_slice()));
    network.recycle(first);
    let second = network.arrive(5 * MS).unwrap();
    assert_eq!(
        (second.to, second.packet.as_slice()),
        (2, b"far".as_slice())
    );
    assert!(network.arrive(Nanos::MAX).is_none());
}

#[test]
fn packets_due_at_the_same_time_keep_their_order() {
    let mut network = network();
    for number in 0..100_u8 {
        network.send(0, 0, 2, &[number]);
    }
    for number in 0..100_u8 {
        let flight = network.arrive(5 * MS).unwrap();
        assert_eq!(flight.packet, [number]);
        network.recycle(flight);
    }
}

#[test]
fn buffers_are_reused() {
    let mut network = network();
    network.send(0, 0, 2, &[1; 1500]);
    let flight = network.arrive(5 * MS).unwrap();
    let place = flight.packet.as_ptr();
    network.recycle(flight);
    network.send(5 * MS, 0, 2, &[2; 9]);
    let flight = network.arrive(10 * MS).unwrap();
    assert_eq!(
        (flight.packet.as_ptr(), flight.packet.as_slice()),
        (place, [2; 9].as_slice())
    );
}

#[test]
fn bytes_on_their_way_are_limited() {
    let mut network = network();
    let packet = vec![0; 60_000];
    for _ in 0..=MAX_AIR_BYTES / packet.len() {
        network.send(0, 0, 2, &packet);
    }
    assert_eq!(network.overflows(), 1);
}
