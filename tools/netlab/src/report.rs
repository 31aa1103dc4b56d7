//! `check`: requested beside observed, and the limits of the relay on this machine.

use std::time::Duration;

use netlab::check::{self, Observed};
use netlab::control::{self, Reply, Request};
use netlab::lab::Lab;
use netlab::link::Quality;
use netlab::topology::{Carrier, Topology};
use netlab::{Outcome, private};
use serde::Serialize;

/// The limit of measured link kinds, because a topology may have thousands of links.
const MOST: usize = 8;
const BULK: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct Report {
    topology: String,
    observed: Vec<Observed>,
    limits: Vec<Limit>,
}

/// The limit of the relay.
#[derive(Serialize)]
struct Limit {
    mtu: u32,
    gbit_per_s: f64,
    packets_per_s: f64,
}

/// Measures a lab and prints the result.
pub fn run(file: &str, probes: u32, json: bool) -> Outcome<()> {
    private::enter()?;
    let topology = Topology::load(file)?;
    let lab = Lab::up(&topology)?;
    let mut observed = Vec::new();
    for (from, to) in kinds(&topology) {
        observed.push(check::observe(&lab, &from, &to, probes)?);
        if !json {
            println!("{}", line(observed.last().ok_or("nothing observed")?));
        }
    }
    let limits = [1500, 9000, 65_000]
        .into_iter()
        .map(limit)
        .collect::<Outcome<_>>()?;
    let report = Report {
        topology: topology.name,
        observed,
        limits,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!("limit of the relay on this machine now, one TCP connection between two nodes:");
    for limit in &report.limits {
        println!(
            "  MTU {:>5}: {:.2} Gbit/s, {:.0} packets/s",
            limit.mtu, limit.gbit_per_s, limit.packets_per_s
        );
    }
    Ok(())
}

/// Prints some round trips. Fails if none came back.
pub fn ping(lab: &Lab, from: &str, to: &str, probes: u32) -> Outcome<()> {
    let trips = check::round_trips(lab, from, to, probes)?;
    let Some(shortest) = trips.iter().copied().reduce(f64::min) else {
        return Err(format!("none of {probes} packets came back").into());
    };
    let mean = trips.iter().sum::<f64>() / trips.len() as f64;
    println!(
        "shortest {shortest:.3} ms, average {mean:.3} ms, {} of {probes}",
        trips.len()
    );
    Ok(())
}

/// Returns one pair of nodes for each kind of link.
fn kinds(topology: &Topology) -> Vec<(String, String)> {
    let nodes = topology.nodes();
    let mut seen: Vec<(Quality, Quality)> = Vec::new();
    let mut pairs = Vec::new();
    for from in &nodes {
        for to in nodes.iter().filter(|to| to.name != from.name) {
            let kind = (topology.link(from, to), topology.link(to, from));
            if !seen.contains(&kind) && pairs.len() < MOST {
                seen.push(kind);
                pairs.push((from.name.clone(), to.name.clone()));
            }
        }
    }
    pairs
}

fn limit(mtu: u32) -> Outcome<Limit> {
    let text =
        format!("name = 'limit-{mtu}'\nmtu = {mtu}\n[[sites]]\nname = 's'\nnodes = ['a', 'b']");
    let topology = Topology::parse(&text)?;
    debug_assert_eq!(topology.carrier, Carrier::Relay);
    let lab = Lab::up(&topology)?;
    let (bytes, seconds) = check::bulk(&lab, "a", "b", BULK)?;
    let Reply::Links(shown) = control::ask(lab.names(), &Request::Show)? else {
        return Err("the relay does not answer".into());
    };
    let packets: u64 = shown.links.iter().map(|link| link.counters.packets).sum();
    Ok(Limit {
        mtu,
        gbit_per_s: bytes as f64 * 8.0 / 1e9 / seconds,
        packets_per_s: packets as f64 / seconds,
    })
}

fn line(observed: &Observed) -> String {
    let asked = &observed.asked;
    let [from, to] = &observed.between;
    let [least, most] = observed.range_ms;
    let rate = match observed.rate_mbit {
        Some(rate) => format!(
            "; rate requested {:.1}, observed {rate:.2} Mbit/s",
            asked.rate_bits as f64 / 1e6
        ),
        None => String::new(),
    };
    format!(
        "{from} - {to}: RTT requested {:.3} ± {:.1} ms, observed {:.3} ms ({least:.3} to {most:.3}, deviation {:.2}); \
         loss asked {:.3} %, observed {:.3} %{rate}",
        observed.asked_rtt_ms,
        asked.jitter as f64 * 2.0 / 1e6,
        observed.rtt_ms,
        observed.deviation_ms,
        asked.loss * 100.0,
        observed.loss * 100.0,
    )
}
