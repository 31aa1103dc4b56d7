//! Certificates from an authority (ACME, RFC 8555).
//!
//! Every node looks at the row of each domain again and again. If a certificate is missing, or a
//! third of its time is left, the first node that notes its order in the row asks the authority.
//! Challenge and certificate are in the row, too: any node answers the authority, and all nodes use
//! the certificate.
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | requests to the authority |
//! | [`domain`] | the state of a domain |
//! | [`plain`] | the listener for plain HTTP |
//! | [`files`] | a copy of each certificate, for a start without the other nodes |
//! | [`order`] | an order |

mod client;
mod domain;
pub mod files;
mod order;
pub mod plain;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archipel_api::serve::tls::{Certificate, Tls};
use archipel_base::clock::WallClock;
use archipel_model::Model;
use archipel_model::certificates::{Challenge, DomainName, DomainRow, Issued, NewCertificate};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::domain::Domain;
use crate::config::certificates::validity;
use crate::config::{self, Settings};

/// The time between two looks at a domain's row.
const INTERVAL: Duration = Duration::from_secs(60);
/// The same while a domain has no certificate: another node may be about to get it.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
/// The time after a start in which nothing is ordered: nodes that start together open their
/// listeners.
const START_TIME: Duration = Duration::from_secs(10);
/// The time of an order. After that another node may begin one.
const ORDER_TIME: Duration = Duration::from_secs(600);
/// The time in which an order must be over, so that nobody else has begun one.
const OWN_TIME: Duration = Duration::from_secs(480);
/// The time for which a challenge that was read counts. So strangers who ask for one cost a read a
/// second.
const LOOKED: Duration = Duration::from_secs(1);
/// The most attempts to write the row with a certificate that was given. It must not be lost.
const NOTES: u32 = 12;

/// The certificates of a node's domains. A clone shares them.
#[derive(Clone)]
pub struct Acme(Arc<Shared>);

struct Shared {
    settings: config::Acme,
    folder: PathBuf,
    model: Model,
    tls: Tls,
    clock: Arc<dyn WallClock>,
    domains: Mutex<BTreeMap<String, Domain>>,
    /// The challenge of each domain of the settings. Requests for it wait for a read of it, and for
    /// no other.
    looked: BTreeMap<String, tokio::sync::Mutex<Looked>>,
}

/// A challenge, and when it was read last.
type Looked = Option<(Instant, Option<Challenge>)>;

/// Starts to get and renew certificates, if the settings say so.
pub fn start(
    settings: &Settings,
    tls: Option<&Tls>,
    model: &Model,
    clock: &Arc<dyn WallClock>,
    background: &mut JoinSet<()>,
) -> Option<Acme> {
    let (configured, tls, model) = (settings.acme.clone()?, tls?.clone(), model.clone());
    let acme = Acme::new(configured, &settings.data_dir, model, tls, clock.clone());
    background.spawn(acme.clone().run());
    Some(acme)
}

impl Acme {
    /// Uses the copies of certificates in `data_dir`, and answers authorities over TLS.
    pub fn new(
        settings: config::Acme,
        data_dir: &std::path::Path,
        model: Model,
        tls: Tls,
        clock: Arc<dyn WallClock>,
    ) -> Acme {
        let names = settings.domains.iter().cloned();
        let domains = names.clone().map(|name| (name, Domain::default()));
        let acme = Acme(Arc::new(Shared {
            domains: Mutex::new(domains.collect()),
            folder: files::folder(data_dir),
            looked: names.map(|name| (name, Default::default())).collect(),
            settings,
            model,
            tls,
            clock,
        }));
        acme.use_copies();
        // Weak, because the certificates would own themselves otherwise.
        let weak = Arc::downgrade(&acme.0);
        acme.0.tls.prove_by(Box::new(move |domain| {
            let acme = weak.upgrade().map(Acme);
            Box::pin(async move { acme?.proof(&domain).await })
        }));
        acme
    }

    /// Returns what this node knows of each domain.
    pub fn domains(&self) -> BTreeMap<String, Domain> {
        self.0.domains.lock().clone()
    }

    /// Returns a line for each domain that needs the operator.
    pub fn warnings(&self) -> Vec<String> {
        let now = self.0.clock.now_millis();
        let domains = self.domains();
        let told = domains.iter().filter_map(|(name, domain)| {
            let state = match domain.not_after_ms {
                Some(end) if end > now => {
                    let days = (end - now) / (24 * 3600 * 1000);
                    format!("the certificate of {name} ends in {days} days")
                }
                Some(_) => format!("the certificate of {name} has ended"),
                None => format!("{name} has no certificate"),
            };
            let failure = domain.failure.as_ref().map(|(why, times, next_ms)| {
                let minutes = next_ms.saturating_sub(now).div_ceil(60_000);
                let tries = if *times == 1 { "try" } else { "tries" };
                format!("{why} ({times} {tries}; the next one in {minutes} minutes)")
            });
            let ended = || {
                let has_ended = domain.not_after_ms.is_some_and(|end| end <= now);
                has_ended.then(|| "no node has renewed it".to_owned())
            };
            let why = domain.trouble.clone().or(failure).or_else(ended)?;
            Some(format!("{state}: {why}"))
        });
        told.collect()
    }

    /// Gets and renews certificates for as long as the node runs.
    pub async fn run(self) {
        let may_order = Instant::now() + START_TIME;
        loop {
            for name in &self.0.settings.domains {
                let looked = self.look_at(name).await.err();
                self.note_trouble(name, looked);
            }
            let (domains, now) = (self.domains(), Instant::now());
            let is_new = |domain: &Domain| domain.not_after_ms.is_none();
            let interval = match domains.values().any(is_new) {
                true => FIRST_INTERVAL,
                false => INTERVAL,
            };
            if now < may_order {
                tokio::time::sleep_until((now + interval).min(may_order)).await;
                continue;
            }
            for name in &self.0.settings.domains {
                let ordered = self.order_if_due(name).await;
                if let Err(error) = ordered {
                    self.note_trouble(name, Some(error));
                }
            }
            tokio::time::sleep(interval).await;
        }
    }

    fn note_trouble(&self, name: &str, trouble: Option<String>) {
        if let Some(domain) = self.0.domains.lock().get_mut(name) {
            if let Some(why) = trouble
                .as_ref()
                .filter(|why| domain.trouble.as_ref() != Some(why))
            {
                tracing::warn!(
                    domain = name,
                    why,
                    "the certificate of a domain cannot be got or used"
                );
            }
            domain.trouble = trouble;
        }
    }

    fn name<'n>(&'n self, domain: &'n str) -> DomainName<'n> {
        DomainName {
            domain,
            directory: &self.0.settings.directory,
        }
    }

    /// Uses the certificate of a domain, if there is one.
    async fn look_at(&self, name: &str) -> Result<(), String> {
        match self.read(name).await?.issued {
            Some(issued) => self.take(name, &issued).await,
            None => Ok(()),
        }
    }

    /// Orders a certificate if one is due, and uses it.
    async fn order_if_due(&self, name: &str) -> Result<(), String> {
        let now = self.0.clock.now_millis();
        let row = self.read(name).await?;
        let own_wait = self
            .domains()
            .get(name)
            .and_then(|domain| domain.own_wait_ms);
        if !row.is_due(now) || own_wait.is_some_and(|until| now < until) {
            return Ok(());
        }
        let began = self.0.model.begin_order(self.name(name), ORDER_TIME).await;
        match began.map_err(|error| error.to_string())? {
            Some(id) => self.order(name, id).await?,
            None => return Ok(()),
        }
        self.look_at(name).await
    }

    async fn read(&self, name: &str) -> Result<DomainRow, String> {
        let row = self.0.model.certificate_of(self.name(name)).await;
        let row = row.map_err(|error| error.to_string())?;
        let failure = row.failure.as_ref();
        let failure = failure.map(|f| (f.why.clone(), f.times, f.next_ms));
        if let Some(domain) = self.0.domains.lock().get_mut(name) {
            domain.failure = failure;
        }
        Ok(row)
    }

    /// Asks the authority for a certificate, and notes the outcome in the row.
    async fn order(&self, name: &str, id: archipel_base::Id) -> Result<(), String> {
        let (model, settings) = (&self.0.model, &self.0.settings);
        tracing::info!(domain = name, "asking the authority for a certificate");
        let ordered = order::run(model, settings, self.name(name), id);
        let ordered = tokio::time::timeout(OWN_TIME, ordered).await;
        match ordered.unwrap_or_else(|_| Err("it took too long".into())) {
            Ok(new) => {
                self.note(name, id, &new).await?;
                tracing::info!(domain = name, "there is a certificate");
            }
            Err(why) => {
                tracing::warn!(domain = name, why, "the authority gave no certificate");
                let node = model.cluster().me().node.short();
                let why = format!("node {node}: {why}");
                let noted = model.give_up_order(self.name(name), id, &why).await;
                noted.map_err(|error| error.to_string())?;
                let next_ms = self
                    .read(name)
                    .await?
                    .failure
                    .map(|failure| failure.next_ms);
                if let Some(domain) = self.0.domains.lock().get_mut(name) {
                    domain.own_wait_ms = next_ms.map(|at| at + 2 * INTERVAL.as_millis() as u64);
                }
            }
        }
        Ok(())
    }

    /// Notes a certificate in the row, again and again if need be.
    async fn note(
        &self,
        name: &str,
        id: archipel_base::Id,
        new: &NewCertificate,
    ) -> Result<(), String> {
        let mut tries = 1;
        loop {
            match self.0.model.end_order(self.name(name), id, new).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err("another node has begun an order meanwhile".into()),
                Err(error) if tries == NOTES => return Err(error.to_string()),
                Err(_) => tokio::time::sleep(FIRST_INTERVAL).await,
            }
            tries += 1;
        }
    }

    /// Uses a certificate, and keeps a copy of it. A copy that cannot be written is tried again with
    /// the next look.
    async fn take(&self, name: &str, issued: &Issued) -> Result<(), String> {
        let known = self.domains().remove(name);
        let known = known.filter(|domain| domain.chain == issued.chain);
        if known.as_ref().is_some_and(|domain| domain.is_copied) {
            return Ok(());
        }
        let key = self.0.model.certificate_key(name, issued).await;
        let key = key.map_err(|error| error.to_string())?;
        let (folder, copy) = (self.0.folder.clone(), files::name(self.name(name)));
        let chain = issued.chain.clone();
        if known.is_none() {
            self.set(name, &chain, &key)?;
        }
        let copied =
            tokio::task::spawn_blocking(move || files::write(&folder, &copy, &chain, &key)).await;
        match copied {
            Ok(Ok(())) => self.note_copy(name),
            Ok(Err(error)) if known.is_none() => {
                tracing::warn!(domain = name, %error, "a certificate cannot be copied to data_dir");
            }
            _ => {}
        }
        Ok(())
    }

    fn note_copy(&self, name: &str) {
        if let Some(domain) = self.0.domains.lock().get_mut(name) {
            domain.is_copied = true;
        }
    }

    fn set(&self, name: &str, chain: &str, key: &str) -> Result<(), String> {
        let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes())?;
        let (_, not_after_ms) = validity(chain.as_bytes())?;
        self.0.tls.use_issued(name, certificate);
        if let Some(domain) = self.0.domains.lock().get_mut(name) {
            domain.not_after_ms = Some(not_after_ms);
            domain.chain = chain.to_owned();
            domain.is_copied = false;
        }
        Ok(())
    }

    fn use_copies(&self) {
        for name in &self.0.settings.domains {
            let copy = files::name(self.name(name));
            let Some((chain, key)) = files::read(&self.0.folder, &copy) else {
                continue;
            };
            match self.set(name, &chain, &key) {
                Ok(()) => self.note_copy(name),
                Err(error) => tracing::warn!(
                    domain = name,
                    error,
                    "the copy of a certificate cannot be used"
                ),
            }
        }
    }

    /// Returns the challenge of an order under way.
    async fn challenge(&self, name: &str) -> Option<Challenge> {
        let mut looked = self.0.looked.get(name)?.lock().await;
        match &*looked {
            Some((at, challenge)) if at.elapsed() < LOOKED => challenge.clone(),
            _ => {
                let row = self.0.model.certificate_of(self.name(name)).await;
                let challenge = row.ok().and_then(|row| row.challenge);
                *looked = Some((Instant::now(), challenge.clone()));
                challenge
            }
        }
    }

    /// Returns the certificate that proves a domain to the authority (RFC 8737).
    async fn proof(&self, name: &str) -> Option<Certificate> {
        let challenge = self.challenge(name).await?;
        match order::proof(name, &challenge.answer) {
            Ok(proof) => Some(proof),
            Err(error) => {
                tracing::warn!(domain = name, error, "no proof can be made");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
