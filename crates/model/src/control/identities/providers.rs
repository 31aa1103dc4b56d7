//! Creating and changing identity providers of OpenID Connect.

use std::sync::Arc;

use archipel_base::boxed;

use crate::Model;
use crate::error::Error;
use crate::identity::{Changed, Limits, NewProvider, Provider, ProviderChange, provider_of_url};

/// The longest name of a client.
const MAX_CLIENT: usize = 255;

/// The most thumbprints.
const MAX_THUMBPRINTS: usize = 5;

impl Model {
    /// Makes an identity provider known.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::LimitExceeded`]; [`Error::EntityExists`].
    #[boxed]
    pub async fn create_provider(&self, new: NewProvider) -> Result<Arc<Provider>, Error> {
        check_thumbprints(&new.thumbprints)?;
        let provider = Provider {
            name: provider_of_url(&new.url)?,
            url: new.url,
            created_ms: self.now_ms(),
            incarnation: self.new_incarnation(),
            clients: new.clients.into_iter().collect(),
            thumbprints: new.thumbprints,
            tags: new.tags,
        };
        check_clients(&provider)?;
        self.create_entity(provider).await
    }

    /// Changes an identity provider in one write.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`]; [`Error::InvalidName`]; [`Error::LimitExceeded`].
    #[boxed]
    pub async fn change_provider(
        &self,
        name: &str,
        change: ProviderChange,
    ) -> Result<Changed<Arc<Provider>>, Error> {
        check_thumbprints(change.thumbprints.as_deref().unwrap_or_default())?;
        self.change_entity(name, move |provider: &mut Provider| {
            let added = change.add_clients.iter().cloned();
            provider.clients.extend(added);
            for client in &change.remove_clients {
                provider.clients.remove(client);
            }
            if let Some(thumbprints) = &change.thumbprints {
                provider.thumbprints.clone_from(thumbprints);
            }
            check_clients(provider)
        })
        .await
    }
}

fn check_clients(provider: &Provider) -> Result<(), Error> {
    let plain = |client: &String| (1..=MAX_CLIENT).contains(&client.len());
    if !provider.clients.iter().all(plain) {
        let why = format!("A client has 1 to {MAX_CLIENT} characters");
        return Err(Error::InvalidName(why));
    }
    if provider.clients.len() > Limits::CLIENTS {
        let most = Limits::CLIENTS;
        let why = format!("Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: {most}");
        return Err(Error::LimitExceeded(why));
    }
    Ok(())
}

fn check_thumbprints(all: &[String]) -> Result<(), Error> {
    let plain = |t: &String| t.len() == 40 && t.bytes().all(|b| b.is_ascii_hexdigit());
    if all.len() > MAX_THUMBPRINTS || !all.iter().all(plain) {
        let why = "ThumbprintList holds up to 5 SHA-1 hashes in hexadecimal";
        return Err(Error::InvalidName(why.into()));
    }
    Ok(())
}
