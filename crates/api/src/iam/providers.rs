//! Identity providers of OpenID Connect.

use archipel_access::Action;
use archipel_access::principal::provider_arn;
use archipel_model::identity::{Limits, Provider, provider_of_url};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

/// The longest name of a client, and the most thumbprints.
const MAX_CLIENT: usize = 255;
const MAX_THUMBPRINTS: usize = 5;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        Action::CreateOpenIDConnectProvider => create(ask, xml).await?,
        Action::GetOpenIDConnectProvider => {
            let provider = ask.model.find_entity::<Provider>(ask.provider()?).await?;
            xml.text("Url", &provider.name);
            write_list(xml, "ClientIDList", provider.clients.iter());
            write_list(xml, "ThumbprintList", provider.thumbprints.iter());
            reply::time(xml, "CreateDate", provider.created_ms);
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
            change(ask, move |provider| {
                provider.clients.insert(client.clone());
                check_clients(provider)
            })
            .await?;
        }
        Action::RemoveClientIDFromOpenIDConnectProvider => {
            let client = ask.form.required("ClientID")?.to_owned();
            change(ask, move |provider| {
                provider.clients.remove(&client);
                Ok(())
            })
            .await?;
        }
        Action::UpdateOpenIDConnectProviderThumbprint => {
            let thumbprints = thumbprints(ask)?;
            change(ask, move |provider| {
                provider.thumbprints.clone_from(&thumbprints);
                Ok(())
            })
            .await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn change(
    ask: &Ask<'_>,
    change: impl Fn(&mut Provider) -> Result<(), archipel_model::Error> + Send + Sync,
) -> IamResult<()> {
    let changed = ask.model.change_entity(ask.provider()?, change).await?;
    ask.done(changed);
    Ok(())
}

fn check_clients(provider: &Provider) -> Result<(), archipel_model::Error> {
    let plain = |client: &String| (1..=MAX_CLIENT).contains(&client.len());
    if !provider.clients.iter().all(plain) {
        let why = format!("A client has 1 to {MAX_CLIENT} characters");
        return Err(archipel_model::Error::InvalidName(why));
    }
    match provider.clients.len() > Limits::CLIENTS {
        true => {
            let why = format!(
                "Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: {}",
                Limits::CLIENTS
            );
            Err(archipel_model::Error::LimitExceeded(why))
        }
        false => Ok(()),
    }
}

fn thumbprints(ask: &Ask<'_>) -> IamResult<Vec<String>> {
    let all = ask.form.members("ThumbprintList");
    let plain = |t: &&str| t.len() == 40 && t.bytes().all(|b| b.is_ascii_hexdigit());
    match all.len() > MAX_THUMBPRINTS || !all.iter().all(plain) {
        true => Err(IamError::invalid(
            "ThumbprintList holds up to 5 SHA-1 hashes in hexadecimal",
        )),
        false => Ok(all.into_iter().map(str::to_owned).collect()),
    }
}

async fn create(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let url = ask.form.required("Url")?;
    let clients = ask.form.members("ClientIDList").into_iter();
    let provider = Provider {
        name: provider_of_url(url)?,
        url: url.to_owned(),
        created_ms: ask.now_ms,
        incarnation: ask.model.new_incarnation(),
        clients: clients.map(str::to_owned).collect(),
        thumbprints: thumbprints(ask)?,
    };
    check_clients(&provider)?;
    let provider = ask.model.create_entity(provider).await?;
    xml.text("OpenIDConnectProviderArn", &provider_arn(&provider.name));
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
