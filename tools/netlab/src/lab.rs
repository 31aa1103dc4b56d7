//! A lab on this machine: namespaces, interfaces, addresses, and the relay that joins them.
//!
//! All parts of a lab carry its name: the namespaces `netlab.LAB.NODE`, and the folder
//! `/run/netlab/LAB` with the topology and the relay's control socket. So leftovers of a crash are
//! found and removed by name.

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
/// The nodes in a block of 256 addresses.
const BLOCK: usize = 250;
/// The namespace of the bridge, if there is one. No node can have this name.
const HUB: &str = "_hub";
/// The limit of packets that wait for the relay in a node's interface.
const DEVICE_QUEUE: u32 = 4000;
const START: Duration = Duration::from_secs(20);

/// The names of a lab's parts.
#[derive(Clone, Debug)]
pub struct Names {
    lab: String,
}

impl Names {
    /// Returns the names of a lab.
    pub fn new(lab: &str) -> Self {
        Self {
            lab: lab.to_owned(),
        }
    }

    /// Returns the path of a node's network namespace.
    pub fn namespace(&self, node: &str) -> PathBuf {
        Path::new(NAMESPACES).join(self.namespace_name(node))
    }

    /// Returns the path of the relay's control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder().join("control")
    }

    /// Returns the lab's folder.
    pub fn folder(&self) -> PathBuf {
        Path::new(STATE).join(&self.lab)
    }

    /// Returns the address of a node by its number.
    pub fn address(number: usize) -> Ipv4Addr {
        let [a, b] = NETWORK;
        Ipv4Addr::new(a, b, (number / BLOCK) as u8, (number % BLOCK + 1) as u8)
    }

    /// Returns the number of the node with this address.
    pub fn number(address: Ipv4Addr) -> Option<usize> {
        let [a, b, block, place] = address.octets();
        let place = usize::from(place).checked_sub(1)?;
        ([a, b] == NETWORK && place < BLOCK).then_some(usize::from(block) * BLOCK + place)
    }

    fn namespace_name(&self, node: &str) -> String {
        format!("{}{node}", self.prefix())
    }

    /// Returns the beginning of the lab's names. Lab names contain no dot, so that no lab's prefix
    /// begins another lab's.
    fn prefix(&self) -> String {
        format!("netlab.{}.", self.lab)
    }
}

/// A lab that is up.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The topology of the lab.
    pub topology: Topology,
    names: Names,
}

impl Lab {
    /// Brings up a lab whose relay is a thread of this process and ends with it. The namespaces
    /// stay: see [`crate::private`] and [`Self::down`].
    pub fn up(topology: &Topology) -> Outcome<Self> {
        let lab = Self::prepare(topology)?;
        match topology.carrier {
            Carrier::Bridge => lab.bridge()?,
            Carrier::Relay => lab.relay_on_a_thread()?,
        }
        Ok(lab)
    }

    /// Brings up a lab whose relay is a separate process. `relay` is the command that runs
    /// [`Self::serve`].
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

    /// Returns a lab that is already up.
    pub fn find(name: &str) -> Outcome<Self> {
        let names = Names::new(name);
        let text = std::fs::read_to_string(names.folder().join(TOPOLOGY))
            .map_err(|_| format!("no lab {name} is up"))?;
        let topology = Topology::parse(&text)?;
        Ok(Self { topology, names })
    }

    /// Returns the names of all labs, also of incomplete ones.
    pub fn all() -> Vec<String> {
        let folders = std::fs::read_dir(STATE).into_iter().flatten().flatten();
        let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
        names.collect()
    }

    /// Runs the relay of a prepared lab in this process until it is told to end or the lab's folder
    /// is gone.
    pub fn serve(&self) -> Outcome<()> {
        let relay = self.open_relay()?;
        let folder = self.names.folder();
        std::fs::write(folder.join("pid"), std::process::id().to_string())?;
        Ok(relay.run(move || folder.exists())?)
    }

    /// Takes a lab down, complete or not. Processes in its namespaces are killed. Returns true if
    /// any part existed.
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

    /// Returns the names of its parts.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the address of a node.
    pub fn address(&self, node: &str) -> Outcome<Ipv4Addr> {
        let nodes = self.topology.nodes();
        let number = nodes.iter().position(|other| other.name == node);
        Ok(Names::address(
            number.ok_or_else(|| format!("no node is called {node}"))?,
        ))
    }

    /// Returns a command that will run in a node's network.
    pub fn command(&self, node: &str, program: impl AsRef<std::ffi::OsStr>) -> Outcome<Command> {
        self.address(node)?;
        let mut command = Command::new(program);
        command
            .env("NETLAB", &self.names.lab)
            .env("NETLAB_NODE", node);
        sys::enter(&mut command, &self.names.namespace(node))?;
        Ok(command)
    }

    /// Creates the folder and the namespaces, which are not joined yet.
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

    /// Gives a node's interface its address and brings it up.
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

    /// Joins all nodes by a bridge in a separate namespace.
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
    /// Returns all existing namespaces of the lab.
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
            // The process may have ended in the meantime.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    Ok(())
}
