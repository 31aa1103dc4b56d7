//! `archipel bucket encryption`, `public-access` and `ownership`: the protection of a bucket.

use archipel_api::admin::types::{
    BlockedEncryption, BucketEncryption, BucketOwnership, ChangePublicAccess, ObjectOwnership,
    PublicAccess,
};
use clap::{Args, Subcommand, ValueEnum};

use super::settings::route;
use super::table;
use super::target::Target;
use crate::client::Failure;

/// The subcommands of `archipel bucket encryption`.
#[derive(Subcommand)]
pub enum EncryptionCommand {
    /// Show the default encryption of a bucket, and what is blocked there
    Show {
        /// The bucket
        bucket: String,
    },
    /// Encrypt new objects with the cluster's keys. Objects that exist stay as they are
    Enable {
        /// The bucket
        bucket: String,
        /// Note that an S3 Bucket Key was asked for. It changes nothing; tools expect to read it
        #[arg(long)]
        bucket_key: bool,
    },
    /// Encrypt new objects only if their requests ask for it
    Disable {
        /// The bucket
        bucket: String,
    },
}

/// The subcommands of `archipel bucket public-access`.
#[derive(Subcommand)]
pub enum PublicAccessCommand {
    /// Show the public permissions that a bucket refuses and ignores
    Show {
        /// The bucket
        bucket: String,
    },
    /// Refuse and ignore public permissions, or accept them. Settings that are not named stay
    Set(SetPublicAccess),
}

/// The arguments of `archipel bucket public-access set`.
#[derive(Args)]
pub struct SetPublicAccess {
    /// The bucket
    bucket: String,
    /// All four settings
    #[arg(
        long,
        value_name = "BOOL",
        required_unless_present_any = [
            "block_public_acls",
            "ignore_public_acls",
            "block_public_policy",
            "restrict_public_buckets",
        ]
    )]
    all: Option<bool>,
    /// Refuse access control lists that grant everybody something
    #[arg(long, value_name = "BOOL")]
    block_public_acls: Option<bool>,
    /// Ignore such lists
    #[arg(long, value_name = "BOOL")]
    ignore_public_acls: Option<bool>,
    /// Refuse policies that grant everybody something
    #[arg(long, value_name = "BOOL")]
    block_public_policy: Option<bool>,
    /// Ignore such policies for clients outside the account
    #[arg(long, value_name = "BOOL")]
    restrict_public_buckets: Option<bool>,
}

/// The subcommands of `archipel bucket ownership`.
#[derive(Subcommand)]
pub enum OwnershipCommand {
    /// Show the owner of new objects, and the effect of access control lists
    Show {
        /// The bucket
        bucket: String,
    },
    /// Set the owner of new objects, and the effect of access control lists
    Set {
        /// The bucket
        bucket: String,
        /// The owner of new objects
        #[arg(ignore_case = true)]
        ownership: Ownership,
    },
}

/// The owner of new objects, by the names of S3.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Ownership {
    /// The bucket's owner. Access control lists do not count
    BucketOwnerEnforced,
    /// The bucket's owner, if the request asks for bucket-owner-full-control
    BucketOwnerPreferred,
    /// The user who writes the object
    ObjectWriter,
}

/// Runs `archipel bucket encryption`.
pub async fn encryption(target: &Target, command: EncryptionCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let (bucket, set) = match command {
        EncryptionCommand::Show { bucket } => (bucket, None),
        EncryptionCommand::Enable { bucket, bucket_key } => (bucket, Some((true, bucket_key))),
        EncryptionCommand::Disable { bucket } => (bucket, Some((false, false))),
    };
    let route = route(&bucket, "encryption");
    let info: BucketEncryption = match set {
        None => client.get(&route).await?,
        Some((enabled, bucket_key)) => {
            let ask = BucketEncryption {
                enabled,
                bucket_key,
                blocked: None,
            };
            client.put(&route, &ask).await?
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let default = match (info.enabled, info.bucket_key) {
        (false, _) => "none: new objects are encrypted only if their requests ask for it",
        (true, false) => "AES256, with the cluster's keys",
        (true, true) => "AES256, with the cluster's keys; a Bucket Key was asked for",
    };
    let blocked = match info.blocked {
        None => "nothing",
        Some(BlockedEncryption::Customer) => "SSE-C: new objects under customers' keys",
    };
    table::print_pairs(&[
        ("bucket", bucket),
        ("default encryption", default.into()),
        ("blocked", blocked.into()),
    ])
}

/// Runs `archipel bucket public-access`.
pub async fn public_access(target: &Target, command: PublicAccessCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let (bucket, info): (String, PublicAccess) = match command {
        PublicAccessCommand::Show { bucket } => {
            let info = client.get(&route(&bucket, "public-access")).await?;
            (bucket, info)
        }
        PublicAccessCommand::Set(set) => {
            let route = route(&set.bucket, "public-access");
            let info = client.patch(&route, &set.change()).await?;
            (set.bucket, info)
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let yes = |is_on: bool| String::from(if is_on { "yes" } else { "no" });
    table::print_pairs(&[
        ("bucket", bucket),
        ("refuses public lists", yes(info.block_public_acls)),
        ("ignores public lists", yes(info.ignore_public_acls)),
        ("refuses public policies", yes(info.block_public_policy)),
        ("ignores public policies", yes(info.restrict_public_buckets)),
    ])
}

impl SetPublicAccess {
    /// Returns the change that is asked for. An option of its own takes precedence over `--all`.
    fn change(&self) -> ChangePublicAccess {
        ChangePublicAccess {
            block_public_acls: self.block_public_acls.or(self.all),
            ignore_public_acls: self.ignore_public_acls.or(self.all),
            block_public_policy: self.block_public_policy.or(self.all),
            restrict_public_buckets: self.restrict_public_buckets.or(self.all),
        }
    }
}

/// Runs `archipel bucket ownership`.
pub async fn ownership(target: &Target, command: OwnershipCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let (bucket, info): (String, BucketOwnership) = match command {
        OwnershipCommand::Show { bucket } => {
            let info = client.get(&route(&bucket, "ownership")).await?;
            (bucket, info)
        }
        OwnershipCommand::Set { bucket, ownership } => {
            let ownership = match ownership {
                Ownership::BucketOwnerEnforced => ObjectOwnership::BucketOwnerEnforced,
                Ownership::BucketOwnerPreferred => ObjectOwnership::BucketOwnerPreferred,
                Ownership::ObjectWriter => ObjectOwnership::ObjectWriter,
            };
            let route = route(&bucket, "ownership");
            let info = client.put(&route, &BucketOwnership { ownership }).await?;
            (bucket, info)
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let owner = match info.ownership {
        ObjectOwnership::BucketOwnerEnforced => {
            "the bucket's owner; access control lists do not count"
        }
        ObjectOwnership::BucketOwnerPreferred => {
            "the bucket's owner, if the request asks for bucket-owner-full-control"
        }
        ObjectOwnership::ObjectWriter => "the user who writes them",
    };
    table::print_pairs(&[("bucket", bucket), ("new objects belong to", owner.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_named_takes_precedence_over_all() {
        let change = |all, ignore_public_acls| {
            let set = SetPublicAccess {
                bucket: "photos".into(),
                all,
                block_public_acls: None,
                ignore_public_acls,
                block_public_policy: None,
                restrict_public_buckets: None,
            };
            let change = set.change();
            [
                change.block_public_acls,
                change.ignore_public_acls,
                change.block_public_policy,
                change.restrict_public_buckets,
            ]
        };
        let (on, off) = (Some(true), Some(false));
        assert_eq!(change(None, on), [None, on, None, None]);
        assert_eq!(change(off, on), [off, on, off, off]);
    }
}
