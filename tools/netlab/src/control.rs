//! Looking at a relay and changing it while it runs: a local socket, a line of JSON each way.

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

/// What may be asked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// All links that carried something or are not as others.
    Show,
    /// Nothing gets through.
    Cut(Ends),
    /// Everything gets through again; without ends all links.
    Heal(Option<Ends>),
    /// Some properties change; the others stay.
    Set(Ends, LinkSpec),
    /// The relay ends.
    Quit,
}

/// Which links: of one node or site to another.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ends {
    /// A node's or site's name.
    pub from: String,
    /// Another's.
    pub to: String,
    /// Only in this direction.
    pub one_way: bool,
}

/// What is answered.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To `Show`.
    Links(Shown),
    /// How many links were changed.
    Done(usize),
    /// Why not.
    Refused(String),
}

/// The network at one moment.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Shown {
    /// The time, nanoseconds since the machine started.
    pub at: u64,
    /// Packets lost because too much was on its way.
    pub overflows: u64,
    /// Links that carried something, or are cut.
    pub links: Vec<ShownLink>,
}

/// One link at one moment.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ShownLink {
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// How it is.
    pub quality: Quality,
    /// Nothing gets through.
    pub is_cut: bool,
    /// What went through so far.
    pub counters: Counters,
}

/// Answers on the lab's control socket, on a thread of its own, as long as the process lives.
pub fn serve(names: &Names, shared: Shared) -> io::Result<()> {
    let listener = UnixListener::bind(names.socket())?;
    let run = move || {
        for stream in listener.incoming().flatten() {
            // Who asked and went away does not wait for an answer.
            let _ = converse(&stream, &shared);
        }
    };
    std::thread::Builder::new()
        .name("control".into())
        .spawn(run)?;
    Ok(())
}

/// Asks a lab's relay.
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

/// Does what is asked.
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

/// Changes the links between `ends`, or all; an error if there are none.
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
