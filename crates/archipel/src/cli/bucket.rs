//! `archipel bucket`

use archipel_api::admin::types::{
    AbortUploads, AddAlias, BucketInfo, BucketSummary, CreateBucket, Grant,
};
use clap::Subcommand;

use super::content;
use super::deletion::Deletion;
use super::filter::Prefix;
use super::policy::{self, OfBucketCommand};
use super::protection::{self, EncryptionCommand, OwnershipCommand, PublicAccessCommand};
use super::quota::{self, QuotaCommand};
use super::rules::{self, CorsCommand, NotificationsCommand};
use super::settings::{self, LifecycleCommand, LockCommand, TagCommand, VersioningCommand};
use super::table::{self, done};
use super::target::Target;
use crate::client::{Failure, path, query};

/// The subcommands of `archipel bucket`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a bucket
    Create {
        /// Its name by S3's rules: 3 to 63 lower-case letters, digits, hyphens and dots
        name: String,
        /// An access key that gets all permissions
        #[arg(long, value_name = "KEY_ID")]
        owner: Option<String>,
    },
    /// List buckets
    List(Prefix),
    /// Show a bucket's contents and the access keys that may use it
    Info {
        /// The bucket
        name: String,
    },
    /// Further names of buckets: add, remove, list
    Alias {
        /// The command.
        #[command(subcommand)]
        command: AliasCommand,
    },
    /// Versions of a bucket's objects: show, enable, suspend
    Versioning {
        /// The command.
        #[command(subcommand)]
        command: VersioningCommand,
    },
    /// Object lock, which protects versions from deletion: show, set
    Lock {
        /// The command.
        #[command(subcommand)]
        command: LockCommand,
    },
    /// The most that a bucket may hold: show, set
    Quota {
        /// The command.
        #[command(subcommand)]
        command: QuotaCommand,
    },
    /// Tags of a bucket: list, set
    Tag {
        /// The command.
        #[command(subcommand)]
        command: TagCommand,
    },
    /// Rules that make objects, versions and uploads expire: show, set, delete
    Lifecycle {
        /// The command.
        #[command(subcommand)]
        command: LifecycleCommand,
    },
    /// The event notifications of a bucket: show, set, delete
    Notifications {
        /// The command.
        #[command(subcommand)]
        command: NotificationsCommand,
    },
    /// The CORS rules of a bucket, for scripts from other sites: show, set, delete
    Cors {
        /// The command.
        #[command(subcommand)]
        command: CorsCommand,
    },
    /// The default encryption of new objects: show, enable, disable
    Encryption {
        /// The command.
        #[command(subcommand)]
        command: EncryptionCommand,
    },
    /// The public permissions that a bucket refuses and ignores: show, set
    PublicAccess {
        /// The command.
        #[command(subcommand)]
        command: PublicAccessCommand,
    },
    /// The owner of new objects, and the effect of access control lists: show, set
    Ownership {
        /// The command.
        #[command(subcommand)]
        command: OwnershipCommand,
    },
    /// The policy of a bucket: show, set, delete
    Policy {
        /// The command.
        #[command(subcommand)]
        command: OfBucketCommand,
    },
    /// Let everybody get a bucket's objects without a key, but not list or change them
    Publish {
        /// The bucket
        name: String,
    },
    /// Keep everybody without a key out of a bucket, whatever its policy says
    Unpublish {
        /// The bucket
        name: String,
    },
    /// List a bucket's incomplete uploads, or abort old ones
    Uploads {
        /// The bucket
        name: String,
        /// Abort them
        #[arg(long, requires = "older_than")]
        abort: bool,
        /// With --abort: those that began at least so long ago: 7d, 12h, 90m
        #[arg(long, value_name = "TIME", value_parser = super::token::seconds, requires = "abort")]
        older_than: Option<u64>,
        /// With --abort: count them only
        #[arg(long, requires = "abort")]
        dry_run: bool,
        /// List only uploads of keys that begin with this
        #[arg(long, value_name = "PREFIX", conflicts_with = "abort")]
        prefix: Option<String>,
    },
    /// Show the metadata of an object
    Object {
        /// The bucket
        name: String,
        /// The object's key
        key: String,
    },
    /// Delete an empty bucket
    Delete {
        /// The bucket
        name: String,
        /// The options of a deletion.
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// The subcommands of `archipel bucket alias`.
#[derive(Subcommand)]
pub enum AliasCommand {
    /// Give a bucket a further name
    Add {
        /// The bucket
        bucket: String,
        /// The further name: a bucket name or a domain
        name: String,
        /// The access key for which alone the name counts
        #[arg(long, value_name = "KEY_ID")]
        key: Option<String>,
    },
    /// Take a further name away. The name that a bucket was created with stays
    Remove {
        /// The bucket
        bucket: String,
        /// The further name
        name: String,
        /// The access key for which alone the name counts
        #[arg(long, value_name = "KEY_ID")]
        key: Option<String>,
    },
    /// List the names of a bucket
    List {
        /// The bucket
        bucket: String,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |name: &str| path(&["v1", "buckets", name]);
    match command {
        Command::Create { name, owner } => {
            let ask = CreateBucket { name, owner };
            show(target, &client.post("/v1/buckets", &ask).await?)
        }
        Command::List(filter) => {
            let buckets: Vec<BucketSummary> = client.list(&filter.of("/v1/buckets")).await?;
            list(target, &buckets)
        }
        Command::Info { name } => show(target, &client.get(&of(&name)).await?),
        Command::Alias { command } => alias(target, command).await,
        Command::Versioning { command } => settings::versioning(target, command).await,
        Command::Lock { command } => settings::lock(target, command).await,
        Command::Quota { command } => quota::run(target, command).await,
        Command::Tag { command } => settings::tags(target, command).await,
        Command::Lifecycle { command } => settings::lifecycle(target, command).await,
        Command::Notifications { command } => rules::notifications(target, command).await,
        Command::Cors { command } => rules::cors(target, command).await,
        Command::Encryption { command } => protection::encryption(target, command).await,
        Command::PublicAccess { command } => protection::public_access(target, command).await,
        Command::Ownership { command } => protection::ownership(target, command).await,
        Command::Publish { name } => {
            let route = settings::route(&name, "public");
            client.put_nothing(&route).await?;
            done(target, &format!("everybody may get the objects of {name}"))
        }
        Command::Policy { command } => policy::of_bucket(target, command).await,
        Command::Unpublish { name } => {
            client.delete(&settings::route(&name, "public")).await?;
            let message = format!("{name} is closed to clients without a key");
            done(target, &message)
        }
        Command::Uploads {
            name,
            older_than: Some(older_than_seconds),
            dry_run,
            ..
        } => {
            let ask = AbortUploads {
                older_than_seconds,
                dry_run,
            };
            content::abort(target, &client, &name, ask).await
        }
        Command::Uploads { name, prefix, .. } => {
            content::uploads(target, &client, &name, prefix.as_deref()).await
        }
        Command::Object { name, key } => content::object(target, &client, &name, &key).await,
        Command::Delete { name, deletion } => {
            let message = format!("bucket {name} deleted");
            deletion.run(target, &client, &of(&name), &message).await
        }
    }
}

async fn alias(target: &Target, command: AliasCommand) -> Result<(), Failure> {
    let client = target.client()?;
    match command {
        AliasCommand::Add { bucket, name, key } => {
            let route = path(&["v1", "buckets", &bucket, "aliases"]);
            let info: BucketInfo = client.post(&route, &AddAlias { name, key }).await?;
            names(target, &info)
        }
        AliasCommand::Remove { bucket, name, key } => {
            let route = path(&["v1", "buckets", &bucket, "aliases", &name]);
            let route = query(&route, &[("key", key.as_deref())]);
            client.delete(&route).await?;
            done(
                target,
                &format!("bucket {bucket} has no alias {name} any more"),
            )
        }
        AliasCommand::List { bucket } => {
            let info: BucketInfo = client.get(&path(&["v1", "buckets", &bucket])).await?;
            names(target, &info)
        }
    }
}

fn names(target: &Target, info: &BucketInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(info);
    }
    let mut rows = vec![[info.name.clone(), "everybody".into()]];
    let aliases = info.aliases.iter();
    rows.extend(aliases.map(|name| [name.clone(), "everybody".into()]));
    let of_keys = info.names_of_keys.iter();
    rows.extend(of_keys.map(|of| [of.name.clone(), of.key.clone()]));
    table::print(["NAME", "FOR"], &rows)
}

fn list(target: &Target, buckets: &[BucketSummary]) -> Result<(), Failure> {
    table::list(target, ["BUCKET", "AGE", "GRANTS"], buckets, |bucket| {
        let age = table::age(bucket.created_ms);
        [bucket.name.clone(), age, bucket.grants.to_string()]
    })
}

fn show(target: &Target, info: &BucketInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(info);
    }
    table::print_pairs(&[
        ("bucket", info.name.clone()),
        ("id", info.id.clone()),
        ("age", table::age(info.created_ms)),
        ("aliases", aliases(info)),
        (
            "objects",
            quota::of_objects(info.objects, info.quota.objects),
        ),
        ("size", quota::of_bytes(info.bytes, info.quota.bytes)),
    ])?;
    grants(&info.grants)
}

fn aliases(info: &BucketInfo) -> String {
    let of_keys = info.names_of_keys.iter();
    let of_keys = of_keys.map(|of| format!("{} (key {})", of.name, of.key));
    let all: Vec<String> = info.aliases.iter().cloned().chain(of_keys).collect();
    match all.is_empty() {
        true => "none".into(),
        false => all.join(", "),
    }
}

/// Prints a table of grants, if there are any.
pub fn grants(grants: &[Grant]) -> Result<(), Failure> {
    if grants.is_empty() {
        return Ok(());
    }
    let mark = |yes: bool| String::from(if yes { "yes" } else { "-" });
    let rows: Vec<[String; 5]> = grants
        .iter()
        .map(|g| {
            let (bucket, key) = (g.bucket.clone(), g.key.clone());
            [bucket, key, mark(g.read), mark(g.write), mark(g.owner)]
        })
        .collect();
    table::text("")?;
    table::print(["BUCKET", "KEY", "READ", "WRITE", "OWNER"], &rows)
}
