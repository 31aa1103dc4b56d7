//! A lab on this machine: namespaces, interfaces, addresses, and the relay that joins them.
//!
//! A lab's name tells all that belongs to it: namespaces `netlab-LAB-NODE`, and the folder `/run/netlab/LAB` with its
//! topology and the relay's control socket. So what a crash left behind is found and removed by name.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::control::{self, Request};
use crate::relay::Relay;
use crate::topology::{Carrier, Topology};
use crate::{Outcome, ip, sys};

const STATE: &str = "/run/netlab";
const NAMESPACES: &str = "/run/netns";
const TOPOLOGY: &str = "topology.toml";
const NETWORK: [u8; 2] = [10, 88];
const NETWORK_BITS: u8 = 16;
/// Nodes to a block of 256 addresses.
const BLOCK: usize = 250;
/// The namespace that holds the bridge, where there is one. No node can have that name.
const HUB: &str = "_hub";
/// Packets that wait for the relay in a node's interface.
const DEVICE_QUEUE: u32 = 4000;
const START: Duration = Duration::from_secs(20);

/// What a lab's parts are called.
#[derive(Clone, Debug)]
pub struct Names {
    lab: String,
}

impl Names {
    /// Those of a lab.
    pub fn new(lab: &str) -> Self {
        Self {
            lab: lab.to_owned(),
        }
    }

    /// A node's network namespace.
    pub fn namespace(&self, node: &str) -> PathBuf {
        Path::new(NAMESPACES).join(self.namespace_name(node))
    }

    /// The relay's control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder().join("control")
    }

    /// The lab's folder.
    pub fn folder(&self) -> PathBuf {
        Path::new(STATE).join(&self.lab)
    }

    /// The address of the node of that number.
    pub fn address(number: usize) -> Ipv4Addr {
        let [a, b] = NETWORK;
        Ipv4Addr::new(a, b, (number / BLOCK) as u8, (number % BLOCK + 1) as u8)
    }

    /// The number of the node with that address.
    pub fn number(address: Ipv4Addr) -> Option<usize> {
        let [a, b, block, place] = address.octets();
        let place = usize::from(place).checked_sub(1)?;
        ([a, b] == NETWORK && place < BLOCK).then_some(usize::from(block) * BLOCK + place)
    }

    fn namespace_name(&self, node: &str) -> String {
        format!("{}{node}", self.prefix())
    }

    /// Names of labs hold no dot, so one lab's is no beginning of another's.
    fn prefix(&self) -> String {
        format!("netlab.{}.", self.lab)
    }
}

/// A lab that is up.
#[derive(Clone, Debug)]
pub struct Lab {
    /// What it looks like.
    pub topology: Topology,
    names: Names,
}

impl Lab {
    /// Brings a lab up whose relay is a thread of this process, and ends with it; the namespaces do not: see
    /// [`crate::private`] and [`Self::down`].
    pub fn up(topology: &Topology) -> Outcome<Self> {
        let lab = Self::prepare(topology)?;
        match topology.carrier {
            Carrier::Bridge => lab.bridge()?,
            Carrier::Relay => lab.relay_on_a_thread()?,
        }
        Ok(lab)
    }

    /// Brings a lab up whose relay is a process of its own: `relay` is the command that runs [`Self::serve`].
    pub fn up_detached(topology: &Topology, relay: &mut Command) -> Outcome<Self> {
        let lab = Self::prepare(topology)?;
        if topology.carrier == Carrier::Bridge {
            lab.bridge()?;
            return Ok(lab);
        }
        let log = std::fs::File::create(lab.names.folder().join("log"))?;
        let relay = relay.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut process = relay.spawn()?;
        let end = sys::now() + START.as_nanos() as u64;
        while control::ask(&lab.names, &Request::Show).is_err() {
            if process.try_wait()?.is_some() || sys::now() > end {
                let log = std::fs::read_to_string(lab.names.folder().join("log"))?;
                Self::down(&lab.names.lab)?;
                return Err(format!("the relay did not start: {log}").into());
            }
            sys::pause(Duration::from_millis(20));
        }
        Ok(lab)
    }

    /// A lab that is up already.
    pub fn find(name: &str) -> Outcome<Self> {
        let names = Names::new(name);
        let text = std::fs::read_to_string(names.folder().join(TOPOLOGY))
            .map_err(|_| format!("no lab {name} is up"))?;
        let topology = Topology::parse(&text)?;
        Ok(Self { topology, names })
    }

    /// The names of all labs of which there is anything.
    pub fn all() -> Vec<String> {
        let folders = std::fs::read_dir(STATE).into_iter().flatten().flatten();
        let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
        names.collect()
    }

    /// Runs a prepared lab's relay in this process until it is told to end or its folder is gone.
    pub fn serve(&self) -> Outcome<()> {
        let relay = self.open_relay()?;
        let folder = self.names.folder();
        std::fs::write(folder.join("pid"), std::process::id().to_string())?;
        Ok(relay.run(move || folder.exists())?)
    }

    /// Takes a lab down, whatever there is of it: processes in its namespaces are killed. True if there was anything.
    pub fn down(name: &str) -> Outcome<bool> {
        let names = Names::new(name);
        let mut found = control::ask(&names, &Request::Quit).is_ok();
        for namespace in names.namespaces() {
            found = true;
            kill_all(&namespace)?;
            ip::run(&["netns", "delete", &namespace])?;
        }
        match std::fs::remove_dir_all(names.folder()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(found),
            Err(error) => Err(error.into()),
        }
    }

    /// What its parts are called.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// A node's address.
    pub fn address(&self, node: &str) -> Outcome<Ipv4Addr> {
        let nodes = self.topology.nodes();
        let number = nodes.iter().position(|other| other.name == node);
        Ok(Names::address(
            number.ok_or_else(|| format!("no node is called {node}"))?,
        ))
    }

    /// A program that will run in a node's network.
    pub fn command(&self, node: &str, program: impl AsRef<std::ffi::OsStr>) -> Outcome<Command> {
        self.address(node)?;
        let mut command = Command::new(program);
        command
            .env("NETLAB", &self.names.lab)
            .env("NETLAB_NODE", node);
        sys::enter(&mut command, &self.names.namespace(node))?;
        Ok(command)
    }

    /// Folder and namespaces, which nothing joins yet.
    fn prepare(topology: &Topology) -> Outcome<Self> {
        let names = Names::new(&topology.name);
        if names.folder().exists() && control::ask(&names, &Request::Show).is_ok() {
            return Err(format!("a lab {} is up already", topology.name).into());
        }
        Self::down(&topology.name)?;
        std::fs::create_dir_all(names.folder())?;
        std::fs::write(names.folder().join(TOPOLOGY), toml::to_string(topology)?)?;
        let lab = Self {
            topology: topology.clone(),
            names,
        };
        let nodes = lab.topology.nodes();
        let add = |name: &str| format!("netns add {}\n", lab.names.namespace_name(name));
        let all: String = nodes.iter().map(|node| add(&node.name)).collect();
        match ip::batch(None, &all) {
            Ok(()) => Ok(lab),
            Err(error) => Self::down(&topology.name).and(Err(error)),
        }
    }

    fn relay_on_a_thread(&self) -> Outcome<()> {
        let relay = self.open_relay()?;
        let run = move || {
            if let Err(error) = relay.run(|| true) {
                eprintln!("the relay ended: {error}");
            }
        };
        std::thread::Builder::new()
            .name("relay".into())
            .spawn(run)?;
        Ok(())
    }

    fn open_relay(&self) -> Outcome<Relay> {
        let relay = Relay::open(&self.topology, &self.names)?;
        for number in 0..self.topology.nodes().len() {
            self.configure(number, DEVICE_QUEUE)?;
        }
        control::serve(&self.names, relay.shared())?;
        Ok(relay)
    }

    /// Gives a node's interface its address and sets it up.
    fn configure(&self, number: usize, queue: u32) -> Outcome<()> {
        let (address, mtu) = (Names::address(number), self.topology.mtu);
        let device = sys::INTERFACE;
        let commands = format!(
            "link set lo up\nlink set {device} mtu {mtu} txqueuelen {queue}\n\
             addr add {address}/{NETWORK_BITS} dev {device}\nlink set {device} up\n"
        );
        let nodes = self.topology.nodes();
        let node = nodes.get(number).ok_or("no such node")?;
        ip::batch(Some(&self.names.namespace_name(&node.name)), &commands)
    }

    /// Joins all nodes by a bridge in a namespace of its own.
    fn bridge(&self) -> Outcome<()> {
        let (hub, mtu) = (self.names.namespace_name(HUB), self.topology.mtu);
        ip::run(&["netns", "add", &hub])?;
        let mut commands = format!("link add br0 mtu {mtu} type bridge\nlink set br0 up\n");
        for (number, node) in self.topology.nodes().iter().enumerate() {
            let space = self.names.namespace_name(&node.name);
            commands += &format!(
                "link add v{number} mtu {mtu} type veth peer name {} netns {space}\n\
                 link set v{number} master br0 up\n",
                sys::INTERFACE
            );
        }
        ip::batch(Some(&hub), &commands)?;
        (0..self.topology.nodes().len()).try_for_each(|number| self.configure(number, 1000))
    }
}

impl Names {
    /// All namespaces of the lab that exist.
    fn namespaces(&self) -> Vec<String> {
        let entries = std::fs::read_dir(NAMESPACES)
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter(|name| name.starts_with(&self.prefix()))
            .collect()
    }
}

fn kill_all(namespace: &str) -> Outcome<()> {
    let listed = Command::new("ip")
        .args(["netns", "pids", namespace])
        .output()?;
    for pid in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
        let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    Ok(())
}
