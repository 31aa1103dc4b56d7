//! `archipel k2v`: a client of the K2V API. It signs with an access key, as any client does.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use http::{Method, StatusCode};
use serde::Deserialize;

use super::table;
use super::target::GLOBAL;
use crate::client::Failure;
use client::{Answer, Ask, Client, JSON, strange};

mod client;

/// The K2V server, and the key to use.
#[derive(Args)]
pub struct Endpoint {
    /// The address of the K2V API
    #[arg(
        long,
        env = "ARCHIPEL_K2V_URL",
        hide_env_values = true,
        value_name = "URL",
        global = true,
        help_heading = GLOBAL,
        default_value = "http://127.0.0.1:3904"
    )]
    pub endpoint: String,
    /// The access key's id
    #[arg(
        long,
        env = "AWS_ACCESS_KEY_ID",
        hide_env_values = true,
        value_name = "KEY_ID",
        global = true,
        help_heading = GLOBAL
    )]
    pub access_key: Option<String>,
    /// The access key's secret. Other users of this machine see options: prefer the variable
    #[arg(
        long,
        env = "AWS_SECRET_ACCESS_KEY",
        hide_env_values = true,
        value_name = "SECRET",
        global = true,
        help_heading = GLOBAL
    )]
    pub secret_key: Option<String>,
    /// The region
    #[arg(
        long,
        env = "AWS_DEFAULT_REGION",
        hide_env_values = true,
        value_name = "REGION",
        global = true,
        help_heading = GLOBAL,
        default_value = "us-east-1"
    )]
    pub region: String,
    /// Certificates in PEM that an https address is checked by, instead of the system's
    #[arg(
        long,
        env = "AWS_CA_BUNDLE",
        hide_env_values = true,
        value_name = "FILE",
        global = true,
        help_heading = GLOBAL
    )]
    pub ca_file: Option<PathBuf>,
    /// Print JSON; values are base64
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Print results and errors only: no confirmations
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
}

/// The name of an item.
#[derive(Args)]
pub struct Item {
    /// The bucket
    bucket: String,
    /// The partition key
    partition_key: String,
    /// The sort key
    sort_key: String,
}

/// The subcommands of `archipel k2v`.
#[derive(Subcommand)]
pub enum Command {
    /// Show an item's values and its causality token
    Read {
        /// The item.
        #[command(flatten)]
        item: Item,
    },
    /// Insert a value into an item
    Insert {
        /// The item.
        #[command(flatten)]
        item: Item,
        /// The value; without it, standard input
        value: Option<String>,
        /// The causality token of the values to replace. Without it, the value stands beside them
        #[arg(long)]
        token: Option<String>,
    },
    /// Delete an item's values
    Delete {
        /// The item.
        #[command(flatten)]
        item: Item,
        /// The causality token of the values to delete. Without it, all values that are there now
        #[arg(long)]
        token: Option<String>,
    },
    /// Wait until an item changes, and show it. Exit status 1 if it does not in time
    Poll {
        /// The item.
        #[command(flatten)]
        item: Item,
        /// The causality token of what is known. Without it, what is there now
        #[arg(long)]
        token: Option<String>,
        /// The time to wait
        #[arg(long, default_value_t = 300)]
        seconds: u64,
    },
    /// List a bucket's partition keys with their items, conflicts, values and bytes
    Index {
        /// The bucket
        bucket: String,
        /// Only partition keys that begin so
        #[arg(long)]
        prefix: Option<String>,
    },
}

/// Runs a subcommand.
pub async fn run(endpoint: &Endpoint, command: Command) -> Result<(), Failure> {
    let client = Client::new(endpoint)?;
    match command {
        Command::Read { item } => {
            let answer = client.read(&item).await?;
            show(endpoint, &answer)
        }
        Command::Insert { item, value, token } => {
            let value = match value {
                Some(value) => value.into_bytes(),
                None => standard_input()?,
            };
            let ask = Ask::item(Method::PUT, &item).with_token(token.as_deref());
            client
                .send(Ask {
                    body: &value,
                    ..ask
                })
                .await?;
            done(endpoint, "inserted")
        }
        Command::Delete { item, token } => {
            let token = client.token_of(&item, token).await?;
            let ask = Ask::item(Method::DELETE, &item).with_token(Some(&token));
            client.send(ask).await?;
            done(endpoint, "deleted")
        }
        Command::Poll {
            item,
            token,
            seconds,
        } => {
            let token = client.token_of(&item, token).await?;
            let text = seconds.to_string();
            let mut ask = Ask::item(Method::GET, &item);
            ask.query.push(("causality_token", &token));
            ask.query.push(("timeout", &text));
            ask.headers.push(JSON);
            ask.time += Duration::from_secs(seconds);
            let answer = client.send(ask).await?;
            match answer.status {
                StatusCode::NOT_MODIFIED => {
                    Err(Failure::new(format!("no change within {seconds} s")))
                }
                _ => show(endpoint, &answer),
            }
        }
        Command::Index { bucket, prefix } => {
            index(endpoint, &client, &bucket, prefix.as_deref()).await
        }
    }
}

fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    let most = archipel_model::k2v::MAX_VALUE_BYTES as u64 + 1;
    let read = std::io::stdin().take(most).read_to_end(&mut value);
    read.map_err(|error| Failure::new(format!("standard input: {error}")))?;
    Ok(value)
}

fn done(endpoint: &Endpoint, text: &str) -> Result<(), Failure> {
    match endpoint.json || endpoint.quiet {
        true => Ok(()),
        false => table::text(text),
    }
}

/// Prints an item: its values, one a line, and its token.
fn show(endpoint: &Endpoint, answer: &Answer) -> Result<(), Failure> {
    let values: Vec<Option<String>> = answer.document()?;
    let token = answer.token()?;
    if endpoint.json {
        return table::print_json(&serde_json::json!({ "token": token, "values": values }));
    }
    for value in values {
        let text = match value {
            None => "(deleted)".to_owned(),
            Some(value) => {
                let bytes = STANDARD.decode(value).map_err(strange)?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        table::document(&text)?;
    }
    table::text(&format!("token: {token}"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexPage {
    partition_keys: Vec<PartitionKey>,
    next_start: Option<String>,
}

#[derive(serde::Serialize, Deserialize)]
struct PartitionKey {
    pk: String,
    entries: u64,
    conflicts: u64,
    values: u64,
    bytes: u64,
}

async fn index(
    endpoint: &Endpoint,
    client: &Client,
    bucket: &str,
    prefix: Option<&str>,
) -> Result<(), Failure> {
    let (mut all, mut start) = (Vec::new(), None::<String>);
    loop {
        let mut query = Vec::new();
        query.extend(prefix.map(|prefix| ("prefix", prefix)));
        query.extend(start.as_deref().map(|start| ("start", start)));
        let ask = Ask {
            query,
            ..Ask::of(Method::GET, bucket)
        };
        let page: IndexPage = client.send(ask).await?.document()?;
        all.extend(page.partition_keys);
        match page.next_start {
            Some(next) => start = Some(next),
            None => break,
        }
    }
    if endpoint.json {
        return table::print_json(&all);
    }
    let rows = all.iter().map(|key| {
        [
            key.pk.clone(),
            key.entries.to_string(),
            key.conflicts.to_string(),
            key.values.to_string(),
            key.bytes.to_string(),
        ]
    });
    let rows: Vec<[String; 5]> = rows.collect();
    let headings = ["PARTITION KEY", "ITEMS", "CONFLICTS", "VALUES", "BYTES"];
    table::print(headings, &rows)
}
