//! An order at an authority: from the account to the certificate.

use std::time::Duration;

use archipel_api::serve::tls::Certificate;
use archipel_base::Id;
use archipel_model::Model;
use archipel_model::certificates::{Challenge, DomainName, NewCertificate};
use instant_acme::{
    Account, AccountBuilder, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier,
    NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};

use super::client::Client;
use crate::config;
use crate::config::certificates::validity;

/// The schedule by which the authority is asked again until it has looked.
const RETRIES: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_secs(2))
    .backoff(1.0)
    .timeout(Duration::from_secs(120));

/// The time after which no node remembers that there was no challenge.
const SHOWN: Duration = Duration::from_secs(2);

/// Orders a certificate.
///
/// # Errors
/// A text for the operator.
pub async fn run(
    model: &Model,
    settings: &config::Acme,
    name: DomainName<'_>,
    id: Id,
) -> Result<NewCertificate, String> {
    let identifiers = [Identifier::Dns(name.domain.to_owned())];
    let wanted = NewOrder::new(&identifiers);
    let order = match account(model, settings).await? {
        Some(account) => account.new_order(&wanted).await,
        None => new_account(model, settings).await?.new_order(&wanted).await,
    };
    let order = match order {
        Err(error) if is_unknown(&error) => {
            new_account(model, settings).await?.new_order(&wanted).await
        }
        other => other,
    };
    let mut order = order.map_err(|error| why(&error))?;
    prove(model, settings, name, id, &mut order).await?;
    match order.poll_ready(&RETRIES).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) | Err(instant_acme::Error::Timeout(_)) => return Err(refusal(&mut order).await),
        Err(error) => return Err(why(&error)),
    }
    let key = order.finalize().await.map_err(|error| why(&error))?;
    let chain = order.poll_certificate(&RETRIES).await;
    let chain = chain.map_err(|error| why(&error))?;
    let (not_before_ms, not_after_ms) = validity(chain.as_bytes())?;
    Certificate::from_pem(chain.as_bytes(), key.as_bytes())?;
    Ok(NewCertificate {
        chain,
        key,
        not_before_ms,
        not_after_ms,
    })
}

/// Returns the cluster's account at the authority; `None` if there is none that can be used.
async fn account(model: &Model, settings: &config::Acme) -> Result<Option<Account>, String> {
    let credentials = match model.authority_account(&settings.directory).await {
        Ok(Some(credentials)) => credentials,
        Ok(None) | Err(archipel_model::Error::Damaged(_)) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let Ok(credentials) = serde_json::from_str::<AccountCredentials>(&credentials) else {
        return Ok(None);
    };
    let account = builder(settings)?.from_credentials(credentials).await;
    account.map(Some).map_err(|error| why(&error))
}

/// Makes an account at the authority, in place of the one so far.
async fn new_account(model: &Model, settings: &config::Acme) -> Result<Account, String> {
    let contact = settings.contact.as_ref().map(|at| format!("mailto:{at}"));
    let new = NewAccount {
        contact: &contact.iter().map(String::as_str).collect::<Vec<_>>(),
        // The settings are refused without `acme.accept_terms`.
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let directory = &settings.directory;
    let made = builder(settings)?
        .create(&new, directory.clone(), None)
        .await;
    let (account, credentials) = made.map_err(|error| why(&error))?;
    let credentials = serde_json::to_string(&credentials).map_err(|error| error.to_string())?;
    let kept = model.keep_authority_account(directory, &credentials).await;
    kept.map_err(|error| error.to_string())?;
    Ok(account)
}

fn builder(settings: &config::Acme) -> Result<AccountBuilder, String> {
    let client = Client::new(settings.ca_file.as_deref())?;
    Ok(Account::builder_with_http(Box::new(client)))
}

/// Returns true if the authority does not know the account: it was set up again, for instance.
fn is_unknown(error: &instant_acme::Error) -> bool {
    let instant_acme::Error::Api(problem) = error else {
        return false;
    };
    let kind = problem.r#type.as_deref();
    kind.is_some_and(|kind| kind.ends_with(":accountDoesNotExist"))
}

/// Shows the challenge, and tells the authority to look.
async fn prove(
    model: &Model,
    settings: &config::Acme,
    name: DomainName<'_>,
    id: Id,
    order: &mut Order,
) -> Result<(), String> {
    let (kind, way) = match settings.challenge {
        config::Challenge::TlsAlpn => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
        config::Challenge::Http => (ChallengeType::Http01, "http-01"),
    };
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(|error| why(&error))?;
        match authorization.status {
            AuthorizationStatus::Pending => {}
            AuthorizationStatus::Valid => continue,
            status => return Err(format!("the authority says: {status:?}")),
        }
        let challenge = authorization.challenge(kind.clone());
        let mut challenge = challenge.ok_or_else(|| {
            format!("the authority does not offer {way}; fix: another acme.challenge")
        })?;
        let shown = Challenge {
            token: challenge.token.clone(),
            answer: challenge.key_authorization().as_str().to_owned(),
        };
        let shown = model.show_challenge(name, id, &shown).await;
        if !shown.map_err(|error| error.to_string())? {
            return Err("another node has begun an order meanwhile".into());
        }
        tokio::time::sleep(SHOWN).await;
        challenge.set_ready().await.map_err(|error| why(&error))?;
    }
    Ok(())
}

/// Returns why the authority does not believe the proof.
async fn refusal(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(authorization)) = authorizations.next().await {
        let mut challenges = authorization.challenges.iter();
        if let Some(problem) = challenges.find_map(|challenge| challenge.error.as_ref()) {
            return format!("the authority did not find the proof: {problem}");
        }
    }
    "the authority did not accept the order".into()
}

/// Returns the text of an error, with its causes.
fn why(error: &instant_acme::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// Returns the certificate that proves a domain (RFC 8737, section 3).
///
/// # Errors
/// A text for the operator.
pub fn proof(domain: &str, answer: &str) -> Result<Certificate, String> {
    let digest = ring::digest::digest(&ring::digest::SHA256, answer.as_bytes());
    let text = |error: rcgen::Error| error.to_string();
    let mut params = CertificateParams::new([domain.to_owned()]).map_err(text)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
    let key = KeyPair::generate().map_err(text)?;
    let made = params.self_signed(&key).map_err(text)?;
    Certificate::for_proof(made.der().clone(), key.into())
}
