//! `archipel role`

use std::path::PathBuf;

use archipel_api::admin::types::{ChangeRole, CreateRole, HolderKind, RoleInfo};
use clap::Subcommand;

use super::deletion::Deletion;
use super::filter::Prefix;
use super::policy::{self, Attachment, InlineCommand, read};
use super::table::{self, names};
use super::target::Target;
use super::token;
use crate::client::{Failure, path};

const KIND: HolderKind = HolderKind::Roles;

/// The subcommands of `archipel role`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a role
    Create {
        /// The name
        name: String,
        /// A file with the policy that says who may assume the role; - for standard input
        #[arg(long, value_name = "FILE")]
        trust: PathBuf,
        /// A description
        #[arg(long, default_value = "")]
        description: String,
        /// The longest session: 1h to 12h [default: 1h]
        #[arg(long, value_name = "TIME", value_parser = token::seconds)]
        max_session: Option<u64>,
    },
    /// List roles
    List(Prefix),
    /// Show a role, who may assume it, and its policies
    Info {
        /// The name
        name: String,
    },
    /// Change a role's description, its longest session, or who may assume it
    Set {
        /// The name
        name: String,
        /// A file with the policy that says who may assume the role; - for standard input
        #[arg(long, value_name = "FILE")]
        trust: Option<PathBuf>,
        /// A description
        #[arg(long)]
        description: Option<String>,
        /// The longest session: 1h to 12h
        #[arg(long, value_name = "TIME", value_parser = token::seconds)]
        max_session: Option<u64>,
    },
    /// Attach a managed policy
    Attach(Attachment),
    /// Detach a managed policy
    Detach(Attachment),
    /// Policies that only one role has: set, show, delete
    Policy {
        /// The command.
        #[command(subcommand)]
        command: InlineCommand,
    },
    /// Delete a role that has no policies. Its sessions end
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
    let of = |name: &str| path(&["v1", "roles", name]);
    match command {
        Command::Create {
            name,
            trust,
            description,
            max_session,
        } => {
            let ask = CreateRole {
                name,
                path: None,
                description,
                max_session_seconds: max_session.map(session),
                trust: read(&trust)?,
            };
            show(target, &client.post("/v1/roles", &ask).await?)
        }
        Command::List(filter) => {
            let roles: Vec<RoleInfo> = client.list(&filter.of("/v1/roles")).await?;
            list(target, &roles)
        }
        Command::Info { name } => show(target, &client.get(&of(&name)).await?),
        Command::Set {
            name,
            trust,
            description,
            max_session,
        } => {
            let change = ChangeRole {
                description,
                max_session_seconds: max_session.map(session),
                trust: trust.map(|file| read(&file)).transpose()?,
                ..ChangeRole::default()
            };
            show(target, &client.patch(&of(&name), &change).await?)
        }
        Command::Attach(policy) => show(target, &policy.attach(&client, KIND).await?),
        Command::Detach(policy) => show(target, &policy.detach(&client, KIND).await?),
        Command::Policy { command } => policy::inline(target, KIND, command).await,
        Command::Delete { name, deletion } => {
            let message = format!("role {name} deleted");
            deletion.run(target, &client, &of(&name), &message).await
        }
    }
}

/// Returns the seconds of a session. The server refuses what is too long.
fn session(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn list(target: &Target, roles: &[RoleInfo]) -> Result<(), Failure> {
    let headings = ["ROLE", "AGE", "POLICIES", "DESCRIPTION"];
    table::list(target, headings, roles, |role| {
        let policies = role.policies.len() + role.inline_policies.len();
        let (age, text) = (table::age(role.created_ms), role.description.clone());
        [role.name.clone(), age, policies.to_string(), text]
    })
}

fn show(target: &Target, role: &RoleInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(role);
    }
    let longest = table::span(role.max_session_seconds.into());
    table::print_pairs(&[
        ("role", role.name.clone()),
        ("arn", role.arn.clone()),
        ("description", role.description.clone()),
        ("age", table::age(role.created_ms)),
        ("longest session", longest),
        ("policies", names(&role.policies)),
        ("inline policies", names(&role.inline_policies)),
        ("trusts", role.trust.trim_end().to_owned()),
    ])
}
