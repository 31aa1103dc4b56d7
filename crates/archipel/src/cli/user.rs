//! `archipel user`

use archipel_api::admin::types::{ChangeUser, CreateUser, HolderKind, KeyWithSecret, UserInfo};
use clap::Subcommand;

use super::bucket::done;
use super::policy::{Attachment, InlineCommand, names};
use super::target::Target;
use super::{key, policy, table};
use crate::client::{Failure, path};

/// The subcommands of `archipel user`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a user
    Create {
        /// The name
        name: String,
        /// Attach a policy, by name or ARN: AdministratorAccess, AmazonS3FullAccess, ...
        #[arg(long = "policy", value_name = "POLICY")]
        policies: Vec<String>,
    },
    /// List all users
    List,
    /// Show a user, its policies and access keys
    Info {
        /// The name
        name: String,
    },
    /// Create an access key of a user and print it with its secret
    Key {
        /// The name
        name: String,
    },
    /// Attach a managed policy: archipel user attach alice AmazonS3ReadOnlyAccess
    Attach(Attachment),
    /// Detach a managed policy
    Detach(Attachment),
    /// Policies that only one user has: set, show, delete
    Policy {
        /// The command.
        #[command(subcommand)]
        command: InlineCommand,
    },
    /// Delete a user that has no access keys, groups and policies
    Delete {
        /// The name
        name: String,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |name: &str| path(&["v1", "users", name]);
    match command {
        Command::Create { name, policies } => {
            let ask = CreateUser {
                name,
                path: None,
                attach: policies,
            };
            show(target, &client.post("/v1/users", &ask).await?)
        }
        Command::List => {
            let users: Vec<UserInfo> = client.list("/v1/users").await?;
            list(target, &users)
        }
        Command::Info { name } => show(target, &client.get(&of(&name)).await?),
        Command::Key { name } => {
            let keys = path(&["v1", "users", &name, "keys"]);
            let made: KeyWithSecret = client.post(&keys, &()).await?;
            key::reveal(target, &made)
        }
        Command::Attach(Attachment { name, policy }) => {
            let change = ChangeUser {
                attach: vec![policy],
                ..ChangeUser::default()
            };
            show(target, &client.patch(&of(&name), &change).await?)
        }
        Command::Detach(Attachment { name, policy }) => {
            let change = ChangeUser {
                detach: vec![policy],
                ..ChangeUser::default()
            };
            show(target, &client.patch(&of(&name), &change).await?)
        }
        Command::Policy { command } => policy::inline(target, HolderKind::Users, command).await,
        Command::Delete { name } => {
            client.delete(&of(&name)).await?;
            done(target, &format!("user {name} deleted"))
        }
    }
}

fn list(target: &Target, users: &[UserInfo]) -> Result<(), Failure> {
    if target.json {
        return table::print_json(&users);
    }
    let rows: Vec<[String; 4]> = users
        .iter()
        .map(|user| {
            let policies = user.policies.len() + user.inline_policies.len();
            let (age, keys) = (table::age(user.created_ms), user.keys.len().to_string());
            [user.name.clone(), age, keys, policies.to_string()]
        })
        .collect();
    table::print(["USER", "AGE", "KEYS", "POLICIES"], &rows)
}

fn show(target: &Target, user: &UserInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(user);
    }
    table::print_pairs(&[
        ("user", user.name.clone()),
        ("arn", user.arn.clone()),
        ("age", table::age(user.created_ms)),
        ("groups", names(&user.groups)),
        ("policies", names(&user.policies)),
        ("inline policies", names(&user.inline_policies)),
        ("keys", names(&user.keys)),
    ])
}
