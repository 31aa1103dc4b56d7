//! `archipel key`

use std::io::Read;
use std::path::PathBuf;

use archipel_api::admin::types::{
    ChangeGrant, ChangeKey, CreateKey, Grant, KeyInfo, KeyWithSecret,
};
use archipel_base::clock::{SystemClock, WallClock};
use clap::{Args, Subcommand};

use super::bucket::grants;
use super::deletion::Deletion;
use super::filter::Named;
use super::target::Target;
use super::{table, token};
use crate::client::{Client, Failure, path};
use crate::config::secret::check_mode;

/// The limit of a secret that is read from a file, in bytes.
const MAX_SECRET_BYTES: u64 = 1024;

/// The subcommands of `archipel key`.
#[derive(Subcommand)]
pub enum Command {
    /// Create an access key and print it with its secret
    Create {
        /// A name for people
        name: String,
        /// Let it create buckets (of which it becomes the owner)
        #[arg(long)]
        create_bucket: bool,
        /// Let it expire after a time: 30d, 12h
        #[arg(long, value_name = "TIME", value_parser = token::seconds)]
        expires: Option<u64>,
    },
    /// Import an access key that was made elsewhere
    Import(ImportArgs),
    /// List access keys
    List(Named),
    /// Show an access key and its permissions
    Info {
        /// The access key id
        id: String,
        /// Show the secret too
        #[arg(long)]
        show_secret: bool,
    },
    /// Change the name of an access key
    Rename {
        /// The access key id
        id: String,
        /// The new name
        name: String,
    },
    /// Delete an access key; requests signed with it are refused from then on
    Delete {
        /// The access key id
        id: String,
        /// The options of a deletion.
        #[command(flatten)]
        deletion: Deletion,
    },
    /// Refuse requests that are signed with an access key, until it is enabled
    Disable {
        /// The access key id
        id: String,
    },
    /// Take requests that are signed with an access key again
    Enable {
        /// The access key id
        id: String,
    },
    /// Let an access key expire after a time, or never
    Expire {
        /// The access key id
        id: String,
        /// The time from now: 30d, 12h; or never
        #[arg(value_parser = token::expiry)]
        after: token::Expiry,
    },
    /// Grant permissions: archipel key allow AK... --bucket photos --read --write
    Allow(Permit),
    /// Revoke permissions: archipel key deny AK... --bucket photos --write
    Deny(Permit),
}

/// The arguments of `archipel key import`.
#[derive(Args)]
pub struct ImportArgs {
    /// The access key id
    id: String,
    /// A file that holds the secret; "-" reads standard input
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// A name for people
    #[arg(long, default_value = "imported")]
    name: String,
    /// Let it create buckets (of which it becomes the owner)
    #[arg(long)]
    create_bucket: bool,
}

impl ImportArgs {
    /// Returns the key to create. Reads its secret.
    fn key(self) -> Result<CreateKey, Failure> {
        Ok(CreateKey {
            name: self.name,
            create_bucket: self.create_bucket,
            id: Some(self.id),
            secret: Some(read_secret(&self.secret_file)?),
            expires_ms: None,
        })
    }
}

/// Returns the time in milliseconds since 1970 that is so many seconds from now.
fn after(seconds: u64) -> u64 {
    let now_ms = SystemClock.now_millis();
    now_ms.saturating_add(seconds.saturating_mul(1000))
}

/// The permissions to grant or to revoke.
#[derive(Args)]
pub struct Permit {
    /// The access key id
    id: String,
    /// The bucket of the permissions below
    #[arg(long)]
    bucket: Option<String>,
    /// List and get objects
    #[arg(long, requires = "bucket")]
    read: bool,
    /// Put and delete objects
    #[arg(long, requires = "bucket")]
    write: bool,
    /// Change the bucket's settings and delete it
    #[arg(long, requires = "bucket")]
    owner: bool,
    /// Create buckets
    #[arg(long)]
    create_bucket: bool,
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |id: &str| path(&["v1", "keys", id]);
    match command {
        Command::Create {
            name,
            create_bucket,
            expires,
        } => {
            let ask = CreateKey {
                name,
                create_bucket,
                expires_ms: expires.map(after),
                ..CreateKey::default()
            };
            reveal(target, &client.post("/v1/keys", &ask).await?)
        }
        Command::Import(args) => {
            let created: KeyWithSecret = client.post("/v1/keys", &args.key()?).await?;
            show(target, &created.key)
        }
        Command::List(filter) => {
            let keys: Vec<KeyInfo> = client.list(&filter.of("/v1/keys")).await?;
            list(target, &keys)
        }
        Command::Info { id, show_secret } => {
            let route = of(&id);
            match show_secret {
                true => reveal(target, &client.get(&format!("{route}/secret")).await?),
                false => show(target, &client.get(&route).await?),
            }
        }
        Command::Rename { id, name } => {
            let change = ChangeKey {
                name: Some(name),
                ..ChangeKey::default()
            };
            show(target, &client.patch(&of(&id), &change).await?)
        }
        Command::Delete { id, deletion } => {
            let message = format!("access key {id} deleted");
            deletion.run(target, &client, &of(&id), &message).await
        }
        Command::Disable { id } => show(target, &client.patch(&of(&id), &disabled(true)).await?),
        Command::Enable { id } => show(target, &client.patch(&of(&id), &disabled(false)).await?),
        Command::Expire { id, after: time } => {
            let change = ChangeKey {
                expires_ms: Some(time.0.map_or(0, after)),
                ..ChangeKey::default()
            };
            show(target, &client.patch(&of(&id), &change).await?)
        }
        Command::Allow(permit) => change(target, &client, permit, true).await,
        Command::Deny(permit) => change(target, &client, permit, false).await,
    }
}

/// Returns the change that disables a key, or that enables it.
fn disabled(is_disabled: bool) -> ChangeKey {
    ChangeKey {
        disabled: Some(is_disabled),
        ..ChangeKey::default()
    }
}

/// Grants the permissions, or revokes them.
async fn change(target: &Target, client: &Client, permit: Permit, to: bool) -> Result<(), Failure> {
    let of_bucket = permit.read || permit.write || permit.owner;
    if permit.bucket.is_some() != of_bucket || !(of_bucket || permit.create_bucket) {
        let what = "--bucket NAME with --read, --write or --owner, or --create-bucket";
        return Err(Failure::new(format!(
            "no permission named; fix: add {what}"
        )));
    }
    let key_path = path(&["v1", "keys", &permit.id]);
    if let Some(bucket) = &permit.bucket {
        let change = ChangeGrant {
            read: permit.read.then_some(to),
            write: permit.write.then_some(to),
            owner: permit.owner.then_some(to),
        };
        let grant = path(&["v1", "buckets", bucket, "grants", &permit.id]);
        let _: Grant = client.patch(&grant, &change).await?;
    }
    if permit.create_bucket {
        let change = ChangeKey {
            create_bucket: Some(to),
            ..ChangeKey::default()
        };
        let _: KeyInfo = client.patch(&key_path, &change).await?;
    }
    show(target, &client.get(&key_path).await?)
}

fn read_secret(file: &PathBuf) -> Result<String, Failure> {
    let cannot = |error| Failure::new(format!("{}: {error}", file.display()));
    let mut secret = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin()
            .take(MAX_SECRET_BYTES)
            .read_to_string(&mut secret)
    } else {
        check_mode(file).map_err(|refused| {
            let path = file.display();
            Failure::new(format!("{path}: {}; fix: {}", refused.why, refused.fix))
        })?;
        std::fs::File::open(file).and_then(|f| f.take(MAX_SECRET_BYTES).read_to_string(&mut secret))
    };
    read.map_err(cannot)?;
    Ok(secret.trim().to_owned())
}

fn list(target: &Target, keys: &[KeyInfo]) -> Result<(), Failure> {
    let headings = [
        "KEY",
        "NAME",
        "USER",
        "AGE",
        "EXPIRES",
        "STATE",
        "CREATES BUCKETS",
        "BUCKETS",
    ];
    table::list(target, headings, keys, row)
}

fn row(key: &KeyInfo) -> [String; 8] {
    let creates = if key.create_bucket { "yes" } else { "-" };
    let buckets = key.grants.as_ref().map(|grants| grants.len().to_string());
    let is_over = key
        .expires_ms
        .is_some_and(|at| at <= SystemClock.now_millis());
    let state = match (key.disabled, is_over) {
        (true, _) => "disabled",
        (false, true) => "expired",
        (false, false) => "enabled",
    };
    [
        key.id.clone(),
        key.name.clone(),
        key.user.clone().unwrap_or_else(|| "-".into()),
        table::age(key.created_ms),
        expires(key.expires_ms),
        state.into(),
        creates.into(),
        buckets.unwrap_or_else(|| "unknown".into()),
    ]
}

/// Shows a key with its secret.
pub fn reveal(target: &Target, key: &KeyWithSecret) -> Result<(), Failure> {
    if target.json {
        return table::print_json(key);
    }
    table::print_pairs(&[
        ("access key", key.key.id.clone()),
        ("secret key", key.secret.clone()),
    ])?;
    show(target, &key.key)
}

/// Describes the expiry of a key.
fn expires(at_ms: Option<u64>) -> String {
    let now_ms = SystemClock.now_millis();
    match at_ms {
        None => "never".into(),
        Some(at) if at <= now_ms => format!("{} ago", table::age(at)),
        Some(at) => format!("in {}", table::until(at)),
    }
}

fn show(target: &Target, key: &KeyInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(key);
    }
    let creates = if key.create_bucket { "yes" } else { "no" };
    table::print_pairs(&[
        ("key", key.id.clone()),
        ("name", key.name.clone()),
        ("age", table::age(key.created_ms)),
        ("creates buckets", creates.into()),
        ("user", key.user.clone().unwrap_or_else(|| "-".into())),
        ("expires", expires(key.expires_ms)),
        ("disabled", if key.disabled { "yes" } else { "no" }.into()),
    ])?;
    match &key.grants {
        Some(known) => grants(known),
        None => table::text("its permissions on buckets are not known now"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_tells_keys_apart_that_have_one_name() {
        let shown = |user: Option<&str>, expires_ms, disabled| {
            let key = KeyInfo {
                id: "AK1".into(),
                name: "laptop".into(),
                created_ms: 0,
                create_bucket: false,
                user: user.map(String::from),
                disabled,
                expires_ms,
                grants: None,
            };
            let [_, _, user, _, expires, state, ..] = row(&key);
            [user, expires, state]
        };
        assert_eq!(shown(None, None, false), ["-", "never", "enabled"]);
        assert_eq!(shown(Some("ann"), None, true), ["ann", "never", "disabled"]);
        let [_, expires, state] = shown(None, Some(1), false);
        assert!(expires.ends_with(" ago") && state == "expired", "{expires}");
    }
}
