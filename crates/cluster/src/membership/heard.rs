//! The cluster of which a node that is in no layout has heard.
//!
//! Such a node forms no first layout, because it joins that cluster. It forgets the cluster again
//! once the node that told of it is in no layout any more, as after its disks were wiped, and no
//! other node is in one.

use archipel_base::{Id, NodeId};

use super::message::{Edition, Gossip, Short};
use super::state::Membership;

/// A cluster of which this node has heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heard {
    pub cluster: Id,
    /// The node that told it, and the edition of its node info at that time.
    pub from: NodeId,
    pub edition: Edition,
}

impl Membership {
    /// Sets the cluster that this node is in, and the newest epoch that it knows. Nodes of other
    /// clusters are ignored from then on. One change sets both, so that a node that tells a cluster
    /// tells its epoch, too.
    pub fn set_cluster(&mut self, cluster: Id, epoch: u64) {
        self.cluster = Some(cluster);
        self.heard = None;
        self.change(|info| info.epoch = epoch);
    }

    /// Returns the cluster that this node is in, by its layout or because others told so.
    pub fn cluster(&self) -> Option<Id> {
        self.cluster.or(self.heard.map(|heard| heard.cluster))
    }

    /// Returns a text for the operator if this node has heard of a cluster: another node told its
    /// name, or tells an epoch.
    pub fn heard_of_cluster(&self) -> Option<String> {
        let mut others = self.others.iter();
        let tells = others.find(|(_, known)| known.info.epoch > 0);
        let told = self.heard.map(|heard| heard.from);
        let node = tells.map(|(node, _)| *node).or(told)?.short();
        let cluster = match self.cluster() {
            Some(cluster) => format!(" ({cluster})"),
            None => String::new(),
        };
        Some(format!(
            "there is a cluster already{cluster}, as node {node} tells, and this node joins it; fix: assign \
             this node there (archipel layout assign), or, if that cluster is not wanted, stop node {node} and \
             empty its data_dir; if node {node} is gone for good, stop all nodes that wait, and then \
             start them again"
        ))
    }

    /// Checks the cluster that another node tells. A node in no cluster joins the first one that it
    /// hears of.
    ///
    /// # Errors
    /// If the node is of another cluster.
    pub(super) fn check_cluster(&mut self, from: NodeId, told: &Gossip) -> Result<(), String> {
        match (self.cluster(), told.cluster) {
            (Some(ours), Some(theirs)) if ours != theirs => Err(format!(
                "it is in another cluster ({theirs}) than this node ({ours}), and two clusters cannot be \
                 joined; fix: give this secret and these addresses only to new nodes and nodes of \
                 one cluster"
            )),
            (None, Some(cluster)) => {
                let edition = self.told_edition(from, told);
                self.heard = Some(Heard {
                    cluster,
                    from,
                    edition,
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the edition of a node's info when it sent a message. A message without a line of its
    /// sender tells that this node knows the edition.
    fn told_edition(&self, from: NodeId, told: &Gossip) -> Edition {
        let lines = told.lines.iter();
        let lines = lines.chain(told.infos.iter().map(|info| &info.line));
        let own = lines.filter(|line| line.node == Short::of(&from));
        let known = self.others.get(&from).map(|known| known.edition);
        let newest = own.map(|line| line.edition()).max();
        newest.or(known).unwrap_or_default()
    }

    /// Forgets the cluster of which this node has heard, if the node that told it is in no layout
    /// now, and no other node is in one.
    pub(super) fn judge_heard(&mut self) {
        let Some(heard) = self.heard else { return };
        let tells = self.others.values().any(|known| known.info.epoch > 0);
        let source = self.others.get(&heard.from);
        let denied =
            source.is_some_and(|known| known.info.epoch == 0 && (known.edition >= heard.edition));
        if !tells && denied {
            self.heard = None;
            self.changes += 1;
        }
    }
}
