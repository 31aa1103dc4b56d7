//! Identity providers of OpenID Connect.

use archipel_access::Action;
use archipel_access::principal::provider_arn;
use archipel_model::identity::{NewProvider, Provider, ProviderChange};

use super::error::IamResult;
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

/// Returns a URL as IAM shows it: without its scheme.
fn issuer_of(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, issuer)| issuer)
}

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        Action::CreateOpenIDConnectProvider => create(ask, xml).await?,
        Action::GetOpenIDConnectProvider => {
            let provider = ask.model.find_entity::<Provider>(ask.provider()?).await?;
            xml.text("Url", issuer_of(&provider.url));
            write_list(xml, "ClientIDList", provider.clients.iter());
            write_list(xml, "ThumbprintList", provider.thumbprints.iter());
            reply::time(xml, "CreateDate", provider.created_ms);
            reply::tags(xml, &provider.tags);
        }
        Action::ListOpenIDConnectProviders => {
            xml.open("OpenIDConnectProviderList");
            for provider in ask.model.entities::<Provider>()? {
                xml.open("member");
                xml.text("Arn", &provider_arn(&provider.name));
                xml.close();
            }
            xml.close();
        }
        Action::DeleteOpenIDConnectProvider => {
            ask.done(ask.model.delete_provider(ask.provider()?).await?);
        }
        Action::AddClientIDToOpenIDConnectProvider => {
            let client = ask.form.required("ClientID")?.to_owned();
            let change = ProviderChange {
                add_clients: vec![client],
                ..ProviderChange::default()
            };
            self::change(ask, change).await?;
        }
        Action::RemoveClientIDFromOpenIDConnectProvider => {
            let client = ask.form.required("ClientID")?.to_owned();
            let change = ProviderChange {
                remove_clients: vec![client],
                ..ProviderChange::default()
            };
            self::change(ask, change).await?;
        }
        Action::UpdateOpenIDConnectProviderThumbprint => {
            let change = ProviderChange {
                thumbprints: Some(members(ask, "ThumbprintList")),
                ..ProviderChange::default()
            };
            self::change(ask, change).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn change(ask: &Ask<'_>, change: ProviderChange) -> IamResult<()> {
    let changed = ask.model.change_provider(ask.provider()?, change).await?;
    ask.done(changed);
    Ok(())
}

fn members(ask: &Ask<'_>, list: &str) -> Vec<String> {
    let members = ask.form.members(list).into_iter();
    members.map(str::to_owned).collect()
}

async fn create(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let created = ask.model.create_provider(NewProvider {
        url: ask.form.required("Url")?.to_owned(),
        clients: members(ask, "ClientIDList"),
        thumbprints: members(ask, "ThumbprintList"),
        tags: ask.form.tags()?,
    });
    let created = created.await?;
    xml.text("OpenIDConnectProviderArn", &provider_arn(&created.name));
    reply::tags(xml, &created.tags);
    Ok(())
}

fn write_list<'t>(
    xml: &mut Writer,
    element: &'static str,
    texts: impl Iterator<Item = &'t String>,
) {
    xml.open(element);
    for text in texts {
        xml.text("member", text);
    }
    xml.close();
}
