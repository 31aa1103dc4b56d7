//! `archipel bucket encryption`, `public-access` and `ownership`: what protects a bucket.

use archipel_api::admin::types::{
    BucketEncryption, BucketOwnership, ObjectOwnership, PublicAccess,
};
use clap::{Args, Subcommand, ValueEnum};

use super::settings::route;
use super::table;
use super::target::Target;
use crate::client::Failure;

/// The subcommands of `archipel bucket encryption`.
#[derive(Subcommand)]
pub enum EncryptionCommand {
    /// Show whether new objects are encrypted where their requests do not say how
    Show {
        /// The bucket
        bucket: String,
    },
    /// Encrypt new objects by the cluster's keys. Those that are there stay as they are
    Enable {
        /// The bucket
        bucket: String,
        /// Note that an S3 Bucket Key was asked for. It changes nothing; tools expect to read it
        #[arg(long)]
        bucket_key: bool,
    },
    /// Encrypt only those new objects whose requests ask for it
    Disable {
        /// The bucket
        bucket: String,
    },
}

/// The subcommands of `archipel bucket public-access`.
#[derive(Subcommand)]
pub enum PublicAccessCommand {
    /// Show which public permissions a bucket refuses and ignores
    Show {
        /// The bucket
        bucket: String,
    },
    /// Refuse and ignore public permissions, or take them. What is not named stays
    Set(SetPublicAccess),
}

/// The arguments of `archipel bucket public-access set`.
#[derive(Args)]
pub struct SetPublicAccess {
    /// The bucket
    bucket: String,
    /// All of the following
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
    /// Show who owns new objects, and whether access control lists count
    Show {
        /// The bucket
        bucket: String,
    },
    /// Set who owns new objects, and whether access control lists count
    Set {
        /// The bucket
        bucket: String,
        /// Who owns new objects
        #[arg(ignore_case = true)]
        ownership: Ownership,
    },
}

/// Who owns new objects, by the names of S3.
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
            };
            client.put(&route, &ask).await?
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let default = match (info.enabled, info.bucket_key) {
        (false, _) => "none: only what requests ask for is encrypted",
        (true, false) => "AES256, by the cluster's keys",
        (true, true) => "AES256, by the cluster's keys; a Bucket Key was asked for",
    };
    table::print_pairs(&[("bucket", bucket), ("default encryption", default.into())])
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
            let ask = set.over(client.get(&route).await?);
            (set.bucket, client.put(&route, &ask).await?)
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
    /// Returns the settings from now on, of which those in `before` are the present ones.
    fn over(&self, before: PublicAccess) -> PublicAccess {
        let of = |named: Option<bool>, before| named.or(self.all).unwrap_or(before);
        PublicAccess {
            block_public_acls: of(self.block_public_acls, before.block_public_acls),
            ignore_public_acls: of(self.ignore_public_acls, before.ignore_public_acls),
            block_public_policy: of(self.block_public_policy, before.block_public_policy),
            restrict_public_buckets: of(
                self.restrict_public_buckets,
                before.restrict_public_buckets,
            ),
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
    fn what_is_not_named_stays() {
        let before = PublicAccess {
            block_public_acls: true,
            ignore_public_acls: false,
            block_public_policy: true,
            restrict_public_buckets: false,
        };
        let set = |all, block_public_acls, ignore_public_acls| SetPublicAccess {
            bucket: "photos".into(),
            all,
            block_public_acls,
            ignore_public_acls,
            block_public_policy: None,
            restrict_public_buckets: None,
        };
        let after = set(None, None, Some(true)).over(before);
        let expected = PublicAccess {
            ignore_public_acls: true,
            ..before
        };
        assert_eq!(after, expected);
        let after = set(Some(false), Some(true), None).over(before);
        let expected = PublicAccess {
            block_public_policy: false,
            ..before
        };
        assert_eq!(after, expected);
    }
}
