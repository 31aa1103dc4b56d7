//! `archipel policy`, and the policies of users, groups, roles and buckets.

use std::path::{Path, PathBuf};

use archipel_api::admin::types::{CreatePolicy, HolderKind, PolicyDocument, PolicyInfo};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::deletion::Deletion;
use super::filter::truth;
use super::table::{self, done, names};
use super::target::Target;
use crate::client::{Client, Failure, path, query};

/// The subcommands of `archipel policy`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a managed policy, which can be attached to users, groups and roles
    Create {
        /// The name
        name: String,
        /// A file with the policy in AWS's JSON; - for standard input
        file: PathBuf,
        /// A description
        #[arg(long, default_value = "")]
        description: String,
    },
    /// List managed policies: yours, and those that every cluster has
    List {
        /// List only policies whose name begins with this
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// List only policies that every cluster has; with false, only yours
        #[arg(
            long,
            value_name = "BOOL",
            num_args = 0..=1,
            require_equals = true,
            default_missing_value = "true"
        )]
        built_in: Option<bool>,
    },
    /// Show a managed policy, and what it is attached to
    Show {
        /// The name or ARN
        name: String,
    },
    /// Replace a managed policy by that of a file
    Set {
        /// The name or ARN
        name: String,
        /// A file with the policy in AWS's JSON; - for standard input
        file: PathBuf,
    },
    /// Delete a managed policy that is attached to nothing
    Delete {
        /// The name or ARN
        name: String,
        /// The options of a deletion.
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// The arguments of `attach` and `detach` of a user, group or role.
#[derive(Args)]
pub struct Attachment {
    /// The name
    pub name: String,
    /// The policy: its name or ARN
    pub policy: String,
}

impl Attachment {
    /// Attaches the policy to one of `kind`, and returns what that is then.
    pub async fn attach<T: DeserializeOwned>(
        &self,
        client: &Client,
        kind: HolderKind,
    ) -> Result<T, Failure> {
        self.change(client, kind, "attach").await
    }

    /// Detaches the policy, and returns what it was attached to.
    pub async fn detach<T: DeserializeOwned>(
        &self,
        client: &Client,
        kind: HolderKind,
    ) -> Result<T, Failure> {
        self.change(client, kind, "detach").await
    }

    async fn change<T: DeserializeOwned>(
        &self,
        client: &Client,
        kind: HolderKind,
        change: &str,
    ) -> Result<T, Failure> {
        let route = path(&["v1", kind.name(), &self.name]);
        client
            .patch(&route, &json!({ change: [self.policy] }))
            .await
    }
}

/// The subcommands of `policy` of a user, group or role: policies that only it has.
#[derive(Subcommand)]
pub enum InlineCommand {
    /// Add a policy that only it has, or replace it by that of a file
    Set {
        /// The name of the user, group or role
        name: String,
        /// The policy's name
        policy: String,
        /// A file with the policy in AWS's JSON; - for standard input
        file: PathBuf,
    },
    /// Show a policy that only it has
    Show {
        /// The name of the user, group or role
        name: String,
        /// The policy's name
        policy: String,
    },
    /// Delete a policy that only it has
    Delete {
        /// The name of the user, group or role
        name: String,
        /// The policy's name
        policy: String,
    },
}

/// The subcommands of `archipel bucket policy`.
#[derive(Subcommand)]
pub enum OfBucketCommand {
    /// Show the policy of a bucket
    Show {
        /// The bucket
        bucket: String,
    },
    /// Replace the policy of a bucket by that of a file
    Set {
        /// The bucket
        bucket: String,
        /// A file with the policy in AWS's JSON; - for standard input
        file: PathBuf,
    },
    /// Delete the policy of a bucket
    Delete {
        /// The bucket
        bucket: String,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |name: &str| path(&["v1", "policies", name]);
    match command {
        Command::Create {
            name,
            file,
            description,
        } => {
            let ask = CreatePolicy {
                name,
                path: None,
                description,
                document: read(&file)?,
            };
            show(target, &client.post("/v1/policies", &ask).await?)
        }
        Command::List { prefix, built_in } => {
            let filters = [("prefix", prefix.as_deref()), ("built_in", truth(built_in))];
            let route = query("/v1/policies", &filters);
            let policies: Vec<PolicyInfo> = client.list(&route).await?;
            list(target, &policies)
        }
        Command::Show { name } => show(target, &client.get(&of(&name)).await?),
        Command::Set { name, file } => {
            let document = read(&file)?;
            let ask = PolicyDocument { document };
            show(target, &client.put(&of(&name), &ask).await?)
        }
        Command::Delete { name, deletion } => {
            let message = format!("policy {name} deleted");
            deletion.run(target, &client, &of(&name), &message).await
        }
    }
}

/// Runs `policy` of users, groups or roles.
pub async fn inline(
    target: &Target,
    kind: HolderKind,
    command: InlineCommand,
) -> Result<(), Failure> {
    let kind = kind.name();
    let of = |name: &str, policy: &str| path(&["v1", "inline-policies", kind, name, policy]);
    match command {
        InlineCommand::Set { name, policy, file } => {
            let message = format!("policy {policy} of {name} set");
            set(target, &of(&name, &policy), &file, &message).await
        }
        InlineCommand::Show { name, policy } => show_document(target, &of(&name, &policy)).await,
        InlineCommand::Delete { name, policy } => {
            target.client()?.delete(&of(&name, &policy)).await?;
            done(target, &format!("policy {policy} of {name} deleted"))
        }
    }
}

/// Runs `archipel bucket policy`.
pub async fn of_bucket(target: &Target, command: OfBucketCommand) -> Result<(), Failure> {
    let of = |bucket: &str| path(&["v1", "buckets", bucket, "policy"]);
    match command {
        OfBucketCommand::Show { bucket } => show_document(target, &of(&bucket)).await,
        OfBucketCommand::Set { bucket, file } => {
            let message = format!("policy of bucket {bucket} set");
            set(target, &of(&bucket), &file, &message).await
        }
        OfBucketCommand::Delete { bucket } => {
            target.client()?.delete(&of(&bucket)).await?;
            done(target, &format!("policy of bucket {bucket} deleted"))
        }
    }
}

async fn set(target: &Target, route: &str, file: &Path, message: &str) -> Result<(), Failure> {
    let document = read(file)?;
    let set: PolicyDocument = target
        .client()?
        .put(route, &PolicyDocument { document })
        .await?;
    match target.json {
        true => table::print_json(&set),
        false => done(target, message),
    }
}

/// Prints a policy as it was given, so that it can be edited and set again.
async fn show_document(target: &Target, route: &str) -> Result<(), Failure> {
    let policy: PolicyDocument = target.client()?.get(route).await?;
    match target.json {
        true => table::print_json(&policy),
        false => table::document(policy.document.trim_end()),
    }
}

/// Reads a file, or standard input if it is `-`.
pub fn read(file: &Path) -> Result<String, Failure> {
    let text = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    text.map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

fn list(target: &Target, policies: &[PolicyInfo]) -> Result<(), Failure> {
    let headings = ["POLICY", "AGE", "ATTACHED TO", "DESCRIPTION"];
    table::list(target, headings, policies, |policy| {
        let age = match policy.built_in {
            true => "built in".to_owned(),
            false => table::age(policy.created_ms),
        };
        let count = policy.holders();
        let count = count.map_or_else(unknown, |count| count.to_string());
        [policy.name.clone(), age, count, policy.description.clone()]
    })
}

fn unknown() -> String {
    "unknown".into()
}

fn holders(known: &Option<Vec<String>>) -> String {
    known.as_deref().map_or_else(unknown, names)
}

fn show(target: &Target, policy: &PolicyInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(policy);
    }
    table::print_pairs(&[
        ("policy", policy.name.clone()),
        ("arn", policy.arn.clone()),
        ("description", policy.description.clone()),
        ("version", policy.version.to_string()),
        ("users", holders(&policy.users)),
        ("groups", holders(&policy.groups)),
        ("roles", holders(&policy.roles)),
    ])?;
    table::document(policy.document.trim_end())
}
