//! The network between nodes: transport, calls, membership.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archipel_base::clock::SystemClock;
use archipel_base::random::{Random, SystemRandom};
use archipel_cluster::layout::LEVEL;
use archipel_cluster::membership::{Members, NodeInfo};
use archipel_cluster::{Cluster, FirstLayout, Network, form};
use archipel_net::dual::{DualTransport, TCP_SCHEME};
use archipel_net::identity::Identity;
use archipel_net::rpc::Rpc;
use archipel_storage::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config;
use crate::discovery::Lookups;
use crate::{identity, version};

mod peers;

pub use peers::read as known_addresses;

/// The network of this node.
#[derive(Clone)]
pub struct Links {
    /// The transport.
    pub transport: config::Transport,
    /// The calls.
    pub rpc: Rpc,
    /// The members.
    pub members: Members,
    /// Looks other nodes up.
    pub lookups: Lookups,
    /// The reason why there is no first layout yet, as long as this node waits for one.
    pub first_layout: watch::Sender<String>,
    data_dir: PathBuf,
}

impl Links {
    /// Starts listening for other nodes.
    ///
    /// # Errors
    /// A text for the operator.
    pub async fn open(
        settings: &config::Network,
        data_dir: &Path,
        store: &Store,
        s3: &str,
        capacity_bytes: u64,
    ) -> Result<Links, String> {
        let document = identity::document(data_dir)?;
        let mut identity = Identity::new(&document, settings.secret.expose().as_bytes())?;
        if let Some(previous) = &settings.previous_secret {
            identity = identity.with_previous(previous.expose().as_bytes());
        }
        let taken = |why: String| {
            format!(
                "cluster.listen: {why}; fix: choose another address or port, or stop what listens there"
            )
        };
        let tcp_only = settings.transport == config::Transport::Tcp;
        let transport = DualTransport::bind(settings.listen, identity, tcp_only).map_err(taken)?;
        let rpc = Rpc::new(transport);
        let scheme = if tcp_only { TCP_SCHEME } else { "" };
        let addresses = settings.advertise.iter();
        let info = NodeInfo {
            addresses: addresses.map(|a| format!("{scheme}{a}")).collect(),
            store: store.identity(),
            version: version::VERSION.into(),
            epoch: 0,
            level: LEVEL,
            s3: s3.to_owned(),
            zone: settings.zone.clone().unwrap_or_default(),
            capacity_bytes,
            first_nodes: 0,
        };
        let random: Arc<dyn Random> = Arc::new(SystemRandom);
        let clock = Arc::new(SystemClock);
        let seeds = settings.join.clone();
        let members = Members::new(rpc.clone(), random, store.boot(), info, seeds, clock);
        members.remember(&peers::read(data_dir));
        let data_dir = data_dir.to_owned();
        Ok(Links {
            transport: settings.transport,
            rpc,
            members,
            lookups: Lookups::new(&settings.discover, tcp_only),
            first_layout: watch::Sender::default(),
            data_dir,
        })
    }

    /// Returns the network as the cluster needs it.
    pub fn network(&self) -> Network {
        Network {
            rpc: self.rpc.clone(),
            directory: Arc::new(self.members.clone()),
            listener: Arc::new(self.members.clone()),
        }
    }

    /// Starts to look nodes up, and to form the first layout with them, as far as the settings want
    /// it. `zone` is that of nodes that tell none.
    pub fn find(
        &self,
        settings: &config::Network,
        zone: &str,
        cluster: &Cluster,
        tasks: &mut JoinSet<()>,
    ) {
        let (lookups, members, looking) =
            (self.lookups.clone(), self.members.clone(), cluster.clone());
        tasks.spawn(async move { lookups.run(&members, &looking).await });
        let Some(nodes) = settings.first_nodes else {
            return;
        };
        let first = FirstLayout {
            nodes,
            replicas: settings.first_replicas,
            zone: zone.to_owned(),
        };
        let (members, cluster) = (self.members.clone(), cluster.clone());
        let waits_for = self.first_layout.clone();
        tasks.spawn(async move { form(&cluster, &members, first, &waits_for).await });
    }

    /// Returns a warning for each address at which no node answers, and one if the first layout
    /// waits.
    pub fn warnings(&self) -> Vec<String> {
        let silent = self.members.silent_seeds();
        let mut all: Vec<String> = silent.iter().map(no_answer).collect();
        let waits = self.first_layout.borrow();
        if !waits.is_empty() {
            all.push(format!("the first layout waits: {}", *waits));
        }
        all
    }

    /// Starts to serve other nodes, to gossip, and to follow the layout.
    pub fn start(&self, cluster: &Cluster, tasks: &mut JoinSet<()>) {
        let (rpc, service) = (self.rpc.clone(), cluster.service());
        tasks.spawn(async move { rpc.serve(service).await });
        let (members, cluster) = (self.members.clone(), cluster.clone());
        let gossip = members.clone();
        tasks.spawn(async move { gossip.run().await });
        let (keeping, me) = (members.clone(), self.rpc.transport().local());
        let folder = self.data_dir.clone();
        tasks.spawn(async move { peers::keep(keeping, me, folder).await });
        tasks.spawn(async move { members.follow(&cluster).await });
    }
}

/// Says that no node answers at an address, and why.
fn no_answer((address, why): &(String, String)) -> String {
    let fix = match why.contains("; fix: ") {
        true => "",
        false => {
            "; fix: start that node, or remove the address from what cluster.join or cluster.discover names"
        }
    };
    format!("no node answers at {address}: {why}{fix}")
}
