//! `archipel identity-provider`

use archipel_api::admin::types::{ChangeProvider, CreateProvider, ProviderInfo};
use clap::{Args, Subcommand};

use super::table::{self, done, names};
use super::target::Target;
use crate::client::{Failure, path};

/// The subcommands of `archipel identity-provider`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a provider of OpenID Connect, whose tokens roles can trust
    Create {
        /// The issuer's URL, which begins with https://
        url: String,
        /// An audience that tokens may be for; repeatable
        #[arg(long = "client", value_name = "AUDIENCE")]
        clients: Vec<String>,
        /// The SHA-1 thumbprint of a certificate in hexadecimal; repeatable. It is stored and
        /// shown, and has no effect
        #[arg(long = "thumbprint", value_name = "HEX")]
        thumbprints: Vec<String>,
    },
    /// List all identity providers
    List,
    /// Show an identity provider
    Info {
        /// The name: the issuer without https://
        name: String,
    },
    /// Change the audiences and thumbprints of an identity provider. Others stay
    Change(ChangeArgs),
    /// Delete an identity provider. The sessions that began with its tokens end
    Delete {
        /// The name: the issuer without https://
        name: String,
    },
}

/// The arguments of `archipel identity-provider change`.
#[derive(Args)]
pub struct ChangeArgs {
    /// The name: the issuer without https://
    name: String,
    /// An audience to add; repeatable
    #[arg(
        long = "add-client",
        value_name = "AUDIENCE",
        required_unless_present_any = ["remove_clients", "thumbprints", "no_thumbprints"]
    )]
    add_clients: Vec<String>,
    /// An audience to remove; repeatable
    #[arg(long = "remove-client", value_name = "AUDIENCE")]
    remove_clients: Vec<String>,
    /// A thumbprint, instead of the present ones; repeatable
    #[arg(long = "thumbprint", value_name = "HEX")]
    thumbprints: Vec<String>,
    /// Remove all thumbprints
    #[arg(long, conflicts_with = "thumbprints")]
    no_thumbprints: bool,
}

impl ChangeArgs {
    fn change(self) -> (String, ChangeProvider) {
        let replaced = self.no_thumbprints || !self.thumbprints.is_empty();
        let change = ChangeProvider {
            add_clients: self.add_clients,
            remove_clients: self.remove_clients,
            thumbprints: replaced.then_some(self.thumbprints),
        };
        (self.name, change)
    }
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |name: &str| path(&["v1", "identity-providers", name]);
    match command {
        Command::Create {
            url,
            clients,
            thumbprints,
        } => {
            let ask = CreateProvider {
                url,
                clients,
                thumbprints,
            };
            show(target, &client.post("/v1/identity-providers", &ask).await?)
        }
        Command::List => {
            let all: Vec<ProviderInfo> = client.list("/v1/identity-providers").await?;
            list(target, &all)
        }
        Command::Info { name } => show(target, &client.get(&of(&name)).await?),
        Command::Change(args) => {
            let (name, change) = args.change();
            show(target, &client.patch(&of(&name), &change).await?)
        }
        Command::Delete { name } => {
            client.delete(&of(&name)).await?;
            done(target, &format!("identity provider {name} deleted"))
        }
    }
}

fn list(target: &Target, providers: &[ProviderInfo]) -> Result<(), Failure> {
    let headings = ["IDENTITY PROVIDER", "AGE", "AUDIENCES"];
    table::list(target, headings, providers, |one| {
        let age = table::age(one.created_ms);
        [one.name.clone(), age, names(&one.clients)]
    })
}

fn show(target: &Target, provider: &ProviderInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(provider);
    }
    table::print_pairs(&[
        ("identity provider", provider.name.clone()),
        ("url", provider.url.clone()),
        ("arn", provider.arn.clone()),
        ("age", table::age(provider.created_ms)),
        ("audiences", names(&provider.clients)),
        ("thumbprints", names(&provider.thumbprints)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbprints_stay_unless_they_are_named() {
        let of = |thumbprints: &[&str], no_thumbprints| ChangeArgs {
            name: "id.example.org".into(),
            add_clients: Vec::new(),
            remove_clients: Vec::new(),
            thumbprints: thumbprints.iter().map(|&one| one.into()).collect(),
            no_thumbprints,
        };
        let change = |args: ChangeArgs| args.change().1.thumbprints;
        assert_eq!(change(of(&[], false)), None);
        assert_eq!(change(of(&[], true)), Some(Vec::new()));
        assert_eq!(change(of(&["ab"], false)), Some(vec!["ab".to_owned()]));
    }
}
