//! `archipel token`

use archipel_api::admin::types::{ChangeToken, CreateToken, TokenInfo, TokenWithSecret};
use clap::Subcommand;

use super::filter::Named;
use super::table::{self, done};
use super::target::Target;
use crate::client::{Failure, path};

/// The subcommands of `archipel token`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a token and print its secret, which cannot be shown again
    Create {
        /// A name for people
        name: String,
        /// The rights that it gives: RESOURCE:read, RESOURCE:write, buckets/NAME:read or
        /// buckets/NAME:write; repeatable. The resource "all" stands for all of them
        #[arg(long = "scope", value_name = "SCOPE", required = true)]
        scopes: Vec<String>,
        /// The time after which it opens nothing: 30d, 12h, 90m. Without it, it opens for ever
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        expires_in: Option<u64>,
    },
    /// List tokens
    List(Named),
    /// Show a token
    Info {
        /// The token's id
        id: String,
    },
    /// Show the token that this command uses
    Current,
    /// Change a token. Options that are not given change nothing; the secret stays as it is
    Change {
        /// The token's id
        id: String,
        /// The name for people
        #[arg(long)]
        name: Option<String>,
        /// The rights that it gives from now on; repeatable
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// The time from now after which it opens nothing: 30d, 12h, 90m; or never
        #[arg(long, value_name = "TIME", value_parser = expiry)]
        expires_in: Option<Expiry>,
    },
    /// Revoke a token; requests that carry it are refused from then on
    Revoke {
        /// The token's id
        id: String,
    },
}

/// Reads a time such as `30d` as seconds.
pub fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "write a number and s, m, h or d, such as 30d".to_owned();
    let (number, unit) = text
        .char_indices()
        .next_back()
        .map(|(at, unit)| (&text[..at], unit))
        .ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(unit).ok_or_else(wrong)?;
    if seconds == 0 {
        return Err("a time of 0 is of no use".into());
    }
    Ok(seconds)
}

/// The time after which a token or a key expires, if it does.
#[derive(Clone, Copy)]
pub struct Expiry(pub Option<u64>);

/// Reads a time such as `30d`, or `never`.
pub fn expiry(text: &str) -> Result<Expiry, String> {
    match text {
        "never" => Ok(Expiry(None)),
        time => seconds(time).map(|seconds| Expiry(Some(seconds))),
    }
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |id: &str| path(&["v1", "tokens", id]);
    match command {
        Command::Create {
            name,
            scopes,
            expires_in,
        } => {
            let ask = CreateToken {
                name,
                scopes,
                valid_seconds: expires_in,
            };
            let made: TokenWithSecret = client.post("/v1/tokens", &ask).await?;
            if target.json {
                return table::print_json(&made);
            }
            table::print_pairs(&[("secret", made.secret.clone())])?;
            show(target, &made.token)
        }
        Command::List(filter) => {
            let tokens: Vec<TokenInfo> = client.list(&filter.of("/v1/tokens")).await?;
            list(target, &tokens)
        }
        Command::Info { id } => show(target, &client.get(&of(&id)).await?),
        Command::Current => show(target, &client.get("/v1/tokens/self").await?),
        Command::Change {
            id,
            name,
            scopes,
            expires_in,
        } => {
            let ask = ChangeToken {
                name,
                scopes: Some(scopes).filter(|scopes| !scopes.is_empty()),
                valid_seconds: expires_in.map(|time| time.0.unwrap_or(0)),
            };
            show(target, &client.patch(&of(&id), &ask).await?)
        }
        Command::Revoke { id } => {
            client.delete(&of(&id)).await?;
            done(target, &format!("token {id} is revoked"))
        }
    }
}

fn expires(token: &TokenInfo) -> String {
    match token.expires_ms {
        None => "never".into(),
        Some(_) if token.expired => "expired".into(),
        Some(time) => format!("in {}", table::until(time)),
    }
}

fn list(target: &Target, tokens: &[TokenInfo]) -> Result<(), Failure> {
    let headings = ["TOKEN", "NAME", "AGE", "EXPIRES", "SCOPES"];
    table::list(target, headings, tokens, |token| {
        let age = table::age(token.created_ms);
        let (id, name) = (token.id.clone(), token.name.clone());
        [id, name, age, expires(token), token.scopes.join(" ")]
    })
}

fn show(target: &Target, token: &TokenInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(token);
    }
    table::print_pairs(&[
        ("token", token.id.clone()),
        ("name", token.name.clone()),
        ("age", table::age(token.created_ms)),
        ("expires", expires(token)),
        ("scopes", token.scopes.join(" ")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_time_or_never() {
        assert_eq!(expiry("90m").map(|time| time.0), Ok(Some(5400)));
        assert_eq!(expiry("never").map(|time| time.0), Ok(None));
        assert!(expiry("0d").is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(seconds("90m"), Ok(5400));
        assert_eq!(seconds("30d"), Ok(2_592_000));
        for wrong in ["", "d", "0d", "30", "1y", "-1h", "99999999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
