//! `archipel keyring`

use archipel_api::admin::types::KeyringInfo;
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;

/// The subcommands of `archipel keyring`.
#[derive(Subcommand)]
pub enum Command {
    /// Show the keys of the keyring, and how far earlier ones are out of use
    Status,
    /// Give the keyring a new key, and wrap everything by it in the background
    Rotate,
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let info: KeyringInfo = match command {
        Command::Status => client.get("/v1/keyring").await?,
        Command::Rotate => client.post("/v1/keyring/rotate", &()).await?,
    };
    if target.json {
        return table::print_json(&info);
    }
    show(&info)
}

fn show(info: &KeyringInfo) -> Result<(), Failure> {
    let rows: Vec<[String; 3]> = info
        .keys
        .iter()
        .map(|key| {
            let state = match (key.open, key.newest) {
                (false, _) => "this node cannot open it",
                (true, true) => "in use for new content",
                (true, false) if info.rotating => "on its way out of use",
                (true, false) => "out of use; it stays for what may come back",
            };
            let made = format!("{} ago", table::age(key.made_ms));
            [key.id.clone(), made, state.into()]
        })
        .collect();
    table::print(["KEY", "MADE", "STATE"], &rows)?;
    let mut pairs = vec![("rotation", rotation_line(info))];
    if info.rotating {
        let (rewrapped, examined) = (info.rewrapped, info.examined);
        pairs.push((
            "wrapped again",
            format!("{rewrapped} of {examined} looked at"),
        ));
    }
    if info.rotating && info.failed > 0 {
        let failed = format!(
            "{}, which the nodes repeat; the log of a node says why",
            table::count(info.failed, "failed attempt")
        );
        pairs.push(("not wrapped", failed));
    }
    if info.plain_secrets > 0 {
        let plain = format!(
            "{}, sealed soon in the background",
            table::count(info.plain_secrets, "secret")
        );
        pairs.push(("in plain text", plain));
    }
    if info.closed_secrets > 0 {
        let closed = format!(
            "{} of access keys and sessions; requests with them answer 503",
            table::count(info.closed_secrets, "secret")
        );
        pairs.push(("not to be opened", closed));
    }
    if let Some(trouble) = &info.trouble {
        pairs.push(("trouble", trouble.clone()));
    }
    table::print_pairs(&pairs)
}

fn rotation_line(info: &KeyringInfo) -> String {
    match (info.rotating, info.last_pass_ms) {
        (false, _) => "none under way".into(),
        (true, None) => format!(
            "first pass: {} of {} buckets done",
            info.buckets_done, info.buckets
        ),
        (true, Some(at)) => format!(
            "everything is wrapped by the newest key; a last pass looks again in {}",
            table::until(at)
        ),
    }
}
