//! The control of a running relay: a local socket with a line of JSON in each direction.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lab::Names;
use crate::link::{Counters, Quality};
use crate::network::Network;
use crate::relay::Shared;
use crate::topology::LinkSpec;
use crate::{Outcome, sys};

const PATIENCE: Duration = Duration::from_secs(5);
const MAX_REQUEST_BYTES: u64 = 1 << 16;

/// A request to the relay.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Shows all links that carried traffic or differ from the others.
    Show,
    /// Cuts the links.
    Cut(Ends),
    /// Ends the cut of the links, or all cuts without ends.
    Heal(Option<Ends>),
    /// Changes some properties; the others stay.
    Set(Ends, LinkSpec),
    /// Ends the relay.
    Quit,
}

/// The links of one node or site to another.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ends {
    /// The name of a node or site.
    pub from: String,
    /// The name of the other one.
    pub to: String,
    /// True for this direction only.
    pub one_way: bool,
}

/// The relay's answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The answer to `Show`.
    Links(Shown),
    /// The number of changed links.
    Done(usize),
    /// The reason of a refusal.
    Refused(String),
}

/// A snapshot of the network.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Shown {
    /// The time in nanoseconds since the machine started.
    pub at: u64,
    /// Packets lost because too many were on their way.
    pub overflows: u64,
    /// The links that carried traffic or are cut.
    pub links: Vec<ShownLink>,
}

/// A snapshot of a link.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ShownLink {
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// The quality of the link.
    pub quality: Quality,
    /// True if no packet gets through.
    pub is_cut: bool,
    /// The traffic so far.
    pub counters: Counters,
}

/// Answers requests on the lab's control socket, in its own thread, for as long as the process
/// lives.
pub fn serve(names: &Names, shared: Shared) -> io::Result<()> {
    let listener = UnixListener::bind(names.socket())?;
    let run = move || {
        for stream in listener.incoming().flatten() {
            // A client that has gone does not wait for an answer.
            let _ = converse(&stream, &shared);
        }
    };
    std::thread::Builder::new()
        .name("control".into())
        .spawn(run)?;
    Ok(())
}

/// Sends a request to a lab's relay and returns the answer.
pub fn ask(names: &Names, request: &Request) -> Outcome<Reply> {
    let mut stream = UnixStream::connect(names.socket())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match serde_json::from_str(&answer)? {
        Reply::Refused(why) => Err(why.into()),
        reply => Ok(reply),
    }
}

fn converse(mut stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_REQUEST_BYTES)).read_line(&mut line)?;
    let request = serde_json::from_str(&line);
    let quits = matches!(request, Ok(Request::Quit));
    let reply = match request {
        Ok(request) => answer(request, &mut shared.lock()),
        Err(error) => Reply::Refused(error.to_string()),
    };
    stream.write_all(serde_json::to_string(&reply)?.as_bytes())?;
    if quits {
        std::process::exit(0);
    }
    Ok(())
}

/// Executes a request.
pub fn answer(request: Request, network: &mut Network) -> Reply {
    let done = match request {
        Request::Show => return Reply::Links(show(network)),
        Request::Cut(ends) => change(network, Some(&ends), |link| link.is_cut = true),
        Request::Heal(ends) => change(network, ends.as_ref(), |link| link.is_cut = false),
        Request::Set(ends, spec) => spec.validate().and_then(|()| {
            change(network, Some(&ends), |link| {
                link.quality = spec.over(&link.quality)
            })
        }),
        Request::Quit => Ok(0),
    };
    done.map_or_else(|error| Reply::Refused(error.to_string()), Reply::Done)
}

fn show(network: &Network) -> Shown {
    let nodes = network.nodes();
    let mut links = Vec::new();
    for (number, from) in nodes.iter().enumerate() {
        for (other, to) in nodes.iter().enumerate() {
            let link = network.link(number, other);
            if number != other && (link.counters.packets > 0 || link.is_cut) {
                links.push(ShownLink {
                    from: from.name.clone(),
                    to: to.name.clone(),
                    quality: link.quality,
                    is_cut: link.is_cut,
                    counters: link.counters,
                });
            }
        }
    }
    Shown {
        at: sys::now(),
        overflows: network.overflows(),
        links,
    }
}

/// Changes the links between `ends`, or all links. Fails if there are none.
fn change(
    network: &mut Network,
    ends: Option<&Ends>,
    mut change: impl FnMut(&mut crate::link::Link),
) -> Outcome<usize> {
    let nodes = network.nodes().to_vec();
    let is = |number: usize, name: &str| {
        let node: &crate::topology::Node = &nodes[number];
        node.name == name || node.site == name
    };
    let fits = |from: usize, to: usize| {
        ends.is_none_or(|ends| {
            (is(from, &ends.from) && is(to, &ends.to))
                || (!ends.one_way && is(from, &ends.to) && is(to, &ends.from))
        })
    };
    let mut changed = 0;
    for from in 0..nodes.len() {
        for to in (0..nodes.len()).filter(|to| *to != from && fits(from, *to)) {
            change(network.link_mut(from, to));
            changed += 1;
        }
    }
    match (changed, ends) {
        (0, Some(ends)) => Err(format!("no link between {} and {}", ends.from, ends.to).into()),
        _ => Ok(changed),
    }
}
