//! `archipel user`

use archipel_api::admin::types::{ChangeUser, CreateUser, HolderKind, KeyWithSecret, UserInfo};
use clap::{Args, Subcommand};

use super::deletion::Deletion;
use super::filter::truth;
use super::policy::{Attachment, InlineCommand};
use super::quota::{self, UserQuotaCommand};
use super::table::{self, names};
use super::target::Target;
use super::{key, policy};
use crate::client::{Failure, path, query};

const KIND: HolderKind = HolderKind::Users;

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
    /// List users
    List(UserFilter),
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
    /// Refuse requests with the access keys of a user, and with the sessions that the keys began
    Disable {
        /// The name
        name: String,
    },
    /// Accept requests with the access keys of a user again
    Enable {
        /// The name
        name: String,
    },
    /// Attach a managed policy: archipel user attach alice AmazonS3ReadOnlyAccess
    Attach(Attachment),
    /// Detach a managed policy
    Detach(Attachment),
    /// The most that the buckets of a user may hold together: show, set
    Quota {
        /// The command.
        #[command(subcommand)]
        command: UserQuotaCommand,
    },
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
        /// The options of a deletion.
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// The filters of the list of users.
#[derive(Args)]
pub struct UserFilter {
    /// List only users whose name begins with this
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// List only users of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// List only disabled users; with false, only the others
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    disabled: Option<bool>,
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
        Command::List(filter) => {
            let filters = [
                ("prefix", filter.prefix.as_deref()),
                ("group", filter.group.as_deref()),
                ("disabled", truth(filter.disabled)),
            ];
            let users: Vec<UserInfo> = client.list(&query("/v1/users", &filters)).await?;
            list(target, &users)
        }
        Command::Info { name } => show(target, &client.get(&of(&name)).await?),
        Command::Key { name } => {
            let keys = path(&["v1", "users", &name, "keys"]);
            let made: KeyWithSecret = client.post(&keys, &()).await?;
            key::reveal(target, &made)
        }
        Command::Quota { command } => quota::run_of_user(target, command).await,
        Command::Disable { name } => {
            show(target, &client.patch(&of(&name), &disabled(true)).await?)
        }
        Command::Enable { name } => {
            show(target, &client.patch(&of(&name), &disabled(false)).await?)
        }
        Command::Attach(policy) => show(target, &policy.attach(&client, KIND).await?),
        Command::Detach(policy) => show(target, &policy.detach(&client, KIND).await?),
        Command::Policy { command } => policy::inline(target, KIND, command).await,
        Command::Delete { name, deletion } => {
            let message = format!("user {name} deleted");
            deletion.run(target, &client, &of(&name), &message).await
        }
    }
}

/// Returns the change that disables a user, or that enables it.
fn disabled(is_disabled: bool) -> ChangeUser {
    ChangeUser {
        disabled: Some(is_disabled),
        ..ChangeUser::default()
    }
}

fn list(target: &Target, users: &[UserInfo]) -> Result<(), Failure> {
    let headings = ["USER", "AGE", "KEYS", "POLICIES", "STATE"];
    table::list(target, headings, users, |user| {
        let policies = user.policies.len() + user.inline_policies.len();
        let (age, keys) = (table::age(user.created_ms), user.keys.len().to_string());
        let state = if user.disabled { "disabled" } else { "enabled" };
        let policies = policies.to_string();
        [user.name.clone(), age, keys, policies, state.into()]
    })
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
        ("disabled", if user.disabled { "yes" } else { "no" }.into()),
    ])
}
