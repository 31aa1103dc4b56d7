//! The parts of new access keys, users, policies, roles and providers, and the entities that
//! policies are attached to.

use crate::bucket::Secret;
use crate::object::Tags;

/// The parts of a new access key.
#[derive(Clone, Default, Debug)]
pub struct NewKey {
    /// The name for people.
    pub name: String,
    /// True if it may create buckets.
    pub may_create_buckets: bool,
    /// The time from which on it does not count, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The id and the secret of a key to import; else they are random.
    pub imported: Option<(String, Secret)>,
}

/// A change of an access key. Fields that are `None` change nothing.
#[derive(Clone, Default, Debug)]
pub struct KeyChange {
    /// The name for people.
    pub name: Option<String>,
    /// True if it may create buckets.
    pub may_create_buckets: Option<bool>,
    /// True if it does not count.
    pub disabled: Option<bool>,
    /// The time from which on it does not count, in milliseconds since 1970; `Some(None)` for none.
    pub expires_ms: Option<Option<u64>>,
}

/// The parts of a new user.
#[derive(Clone, Default, Debug)]
pub struct NewUser {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The ARNs of managed policies to attach.
    pub attach: Vec<String>,
    /// The tags.
    pub tags: Tags,
}

/// The parts of a new managed policy.
#[derive(Clone, Debug)]
pub struct NewPolicy {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The description.
    pub description: String,
    /// The document.
    pub document: String,
    /// The tags.
    pub tags: Tags,
}

/// The parts of a new role.
#[derive(Clone, Debug)]
pub struct NewRole {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The description.
    pub description: String,
    /// The longest session in seconds; `None` for an hour.
    pub max_session_s: Option<u32>,
    /// The policy that says who may assume it.
    pub trust: String,
    /// The tags.
    pub tags: Tags,
}

/// A change of the managed policies that are attached to a user, group or role, each named by its
/// ARN. It is one change: if one policy is refused, nothing changes.
#[derive(Clone, Default, Debug)]
pub struct Attachments {
    /// The policies to attach.
    pub attach: Vec<String>,
    /// The policies to detach after that.
    pub detach: Vec<String>,
}

/// A change of a user. A field that is `None` changes nothing.
#[derive(Clone, Default, Debug)]
pub struct UserChange {
    /// True if the user's access keys, and the sessions that they began, shall not count.
    pub disabled: Option<bool>,
    /// The managed policies.
    pub policies: Attachments,
}

/// The parts of a new identity provider.
#[derive(Clone, Default, Debug)]
pub struct NewProvider {
    /// The issuer's URL.
    pub url: String,
    /// The audiences that tokens may be for.
    pub clients: Vec<String>,
    /// Thumbprints of certificates.
    pub thumbprints: Vec<String>,
    /// The tags.
    pub tags: Tags,
}

/// A change of an identity provider. A field that is `None` changes nothing.
#[derive(Clone, Default, Debug)]
pub struct ProviderChange {
    /// Audiences to add.
    pub add_clients: Vec<String>,
    /// Audiences to remove after that.
    pub remove_clients: Vec<String>,
    /// The thumbprints from now on.
    pub thumbprints: Option<Vec<String>>,
}

/// A change of a group.
#[derive(Clone, Default, Debug)]
pub struct GroupChange {
    /// Users that join.
    pub add_users: Vec<String>,
    /// Users that leave after that.
    pub remove_users: Vec<String>,
    /// The managed policies.
    pub policies: Attachments,
}

/// A change of a role. Fields that are `None` change nothing.
#[derive(Clone, Default, Debug)]
pub struct RoleChange {
    /// The description.
    pub description: Option<String>,
    /// The longest session in seconds.
    pub max_session_s: Option<u32>,
    /// The policy that says who may assume it.
    pub trust: Option<String>,
    /// The managed policies.
    pub policies: Attachments,
}

/// A user, group or role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// `user`, `group` or `role`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}
