//! `archipel group`

use archipel_api::admin::types::{ChangeGroup, CreateGroup, GroupInfo, HolderKind};
use clap::Subcommand;

use super::deletion::Deletion;
use super::filter::Prefix;
use super::policy::{self, Attachment, InlineCommand};
use super::table::{self, names};
use super::target::Target;
use crate::client::{Failure, path};

const KIND: HolderKind = HolderKind::Groups;

/// The subcommands of `archipel group`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a group
    Create {
        /// The name
        name: String,
    },
    /// List groups
    List(Prefix),
    /// Show a group, its users and policies
    Info {
        /// The name
        name: String,
    },
    /// Add users to a group
    Add {
        /// The group
        name: String,
        /// The users
        #[arg(required = true)]
        users: Vec<String>,
    },
    /// Remove users from a group
    Remove {
        /// The group
        name: String,
        /// The users
        #[arg(required = true)]
        users: Vec<String>,
    },
    /// Attach a managed policy
    Attach(Attachment),
    /// Detach a managed policy
    Detach(Attachment),
    /// Policies that only one group has: set, show, delete
    Policy {
        /// The command.
        #[command(subcommand)]
        command: InlineCommand,
    },
    /// Delete a group that has no users and policies
    Delete {
        /// The name
        name: String,
        /// The options of a deletion.
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |name: &str| path(&["v1", "groups", name]);
    match command {
        Command::Create { name } => {
            let ask = CreateGroup { name, path: None };
            show(target, &client.post("/v1/groups", &ask).await?)
        }
        Command::List(filter) => {
            let groups: Vec<GroupInfo> = client.list(&filter.of("/v1/groups")).await?;
            list(target, &groups)
        }
        Command::Info { name } => show(target, &client.get(&of(&name)).await?),
        Command::Add { name, users } => {
            let change = ChangeGroup {
                add_users: users,
                ..ChangeGroup::default()
            };
            show(target, &client.patch(&of(&name), &change).await?)
        }
        Command::Remove { name, users } => {
            let change = ChangeGroup {
                remove_users: users,
                ..ChangeGroup::default()
            };
            show(target, &client.patch(&of(&name), &change).await?)
        }
        Command::Attach(policy) => show(target, &policy.attach(&client, KIND).await?),
        Command::Detach(policy) => show(target, &policy.detach(&client, KIND).await?),
        Command::Policy { command } => policy::inline(target, KIND, command).await,
        Command::Delete { name, deletion } => {
            let message = format!("group {name} deleted");
            deletion.run(target, &client, &of(&name), &message).await
        }
    }
}

fn list(target: &Target, groups: &[GroupInfo]) -> Result<(), Failure> {
    let headings = ["GROUP", "AGE", "USERS", "POLICIES"];
    table::list(target, headings, groups, |group| {
        let policies = group.policies.len() + group.inline_policies.len();
        let (age, users) = (table::age(group.created_ms), group.users.len().to_string());
        [group.name.clone(), age, users, policies.to_string()]
    })
}

fn show(target: &Target, group: &GroupInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(group);
    }
    table::print_pairs(&[
        ("group", group.name.clone()),
        ("arn", group.arn.clone()),
        ("age", table::age(group.created_ms)),
        ("users", names(&group.users)),
        ("policies", names(&group.policies)),
        ("inline policies", names(&group.inline_policies)),
    ])
}
