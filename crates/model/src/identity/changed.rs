//! The results of changes, and limits.

use archipel_base::NodeId;

/// The most of each kind. All are in the memory of every node.
pub struct Limits;

impl Limits {
    /// Users, groups, roles and managed policies, of each kind.
    pub const ENTITIES: usize = 5000;
    /// Access keys of a user.
    pub const KEYS: usize = 10;
    /// Groups of a user.
    pub const GROUPS: usize = 10;
    /// Managed policies that are attached to one user, group or role.
    pub const ATTACHED: usize = 20;
    /// Versions of a managed policy.
    pub const VERSIONS: usize = 5;
    /// The shortest and the longest limit of a role's sessions, in seconds.
    pub const SESSION_SECONDS: [u32; 2] = [3600, 43_200];
    /// Audiences of an identity provider.
    pub const CLIENTS: usize = 100;
}

/// The result of a change.
#[derive(Clone, Debug)]
pub struct Changed<T> {
    /// The value after the change.
    pub value: T,
    /// The nodes that did not confirm that they know of the change. They learn of it when they are
    /// back, or answer nothing at the end of their lease.
    pub unconfirmed: Vec<NodeId>,
}

impl<T> Changed<T> {
    /// Leaves out the value.
    pub fn forget(self) -> Changed<()> {
        Changed {
            value: (),
            unconfirmed: self.unconfirmed,
        }
    }
}
