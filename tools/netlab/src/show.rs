//! The live table: the traffic and the losses of each link in the last second.

use std::collections::BTreeMap;
use std::time::Duration;

use netlab::control::{self, Reply, Request, Shown, ShownLink};
use netlab::lab::Lab;
use netlab::link::Counters;
use netlab::{Outcome, sys};

/// Prints the table every second, or once.
pub fn run(lab: &Lab, once: bool) -> Outcome<()> {
    let mut before = shown(lab)?;
    loop {
        sys::pause(Duration::from_secs(1));
        let now = shown(lab)?;
        if !once {
            // Moves to the top left corner and clears the screen.
            print!("\x1b[H\x1b[J");
        }
        print(&before, &now);
        if once {
            return Ok(());
        }
        before = now;
    }
}

fn shown(lab: &Lab) -> Outcome<Shown> {
    match control::ask(lab.names(), &Request::Show)? {
        Reply::Links(shown) => Ok(shown),
        other => Err(format!("unexpected answer: {other:?}").into()),
    }
}

fn print(before: &Shown, now: &Shown) {
    let key = |link: &ShownLink| (link.from.clone(), link.to.clone());
    let old: BTreeMap<_, Counters> = before.links.iter().map(|l| (key(l), l.counters)).collect();
    let seconds = (now.at - before.at) as f64 / 1e9;
    println!(
        "{:<10} {:<10} {:>14} {:>9} {:>6} | {:>9} {:>9} | {:>8} {:>8} {:>8}",
        "from",
        "to",
        "one way ms",
        "Mbit/s",
        "loss",
        "Mbit/s",
        "packets/s",
        "chance",
        "queue",
        "cut"
    );
    for link in &now.links {
        let old = old.get(&key(link)).copied().unwrap_or_default();
        println!("{}", line(link, &old, seconds));
    }
    if now.overflows > 0 {
        println!("{} packets lost: too many on their way", now.overflows);
    }
}

fn line(link: &ShownLink, old: &Counters, seconds: f64) -> String {
    let (quality, counters) = (&link.quality, &link.counters);
    let way = match quality.jitter {
        0 => format!("{:.1}", quality.latency as f64 / 1e6),
        jitter => format!(
            "{:.1} ± {:.1}",
            quality.latency as f64 / 1e6,
            jitter as f64 / 1e6
        ),
    };
    let rate = match (link.is_cut, quality.rate_bits) {
        (true, _) => "cut".to_owned(),
        (_, 0) => "-".to_owned(),
        (_, bits) => format!("{:.1}", bits as f64 / 1e6),
    };
    format!(
        "{:<10} {:<10} {way:>14} {rate:>9} {:>6} | {:>9.2} {:>9.0} | {:>8} {:>8} {:>8}",
        link.from,
        link.to,
        quality.loss,
        (counters.bytes - old.bytes) as f64 * 8.0 / 1e6 / seconds,
        (counters.packets - old.packets) as f64 / seconds,
        counters.chance,
        counters.queue,
        counters.cut,
    )
}
