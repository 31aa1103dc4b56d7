//! Certificates that an authority gave to the cluster, and the account there (ACME, RFC 8555).
//!
//! Each domain has one row for each authority: the certificate with its sealed key, the challenge
//! of an order under way, and who works on it. So any node may order a certificate, any node
//! answers the authority, and all nodes use it. Private keys are sealed by the keyring.
//!
//! # Invariants
//! - One node works on a domain at a time: the others wait until its time is over.
//! - A node that took longer than its time changes nothing any more.

mod reseal;

use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::hash::placement_hash;
use archipel_base::{Id, PartitionId, boxed};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use serde::{Deserialize, Serialize};

use crate::Model;
use crate::cipher::sealed::{Purpose, Sealed};
use crate::error::{Error, damaged_row};
use crate::rowkeys;

/// The wait after the first failure, which doubles with each. So there are five failures in the
/// first hour: as many as Let's Encrypt allows.
const FIRST_WAIT_MS: u64 = 2 * 60 * 1000;
/// The longest wait after a failure.
const LONGEST_WAIT_MS: u64 = 2 * 3600 * 1000;
/// The shortest time between two orders of a certificate, whatever its authority says of its time.
const PAUSE_MS: u64 = 600 * 1000;
/// The most characters of a failure's text that are kept.
const MAX_WHY_CHARS: usize = 125;

/// A domain, and the directory of the authority that is asked for its certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainName<'n> {
    /// The domain.
    pub domain: &'n str,
    /// The address of the authority's directory.
    pub directory: &'n str,
}

/// The row of a domain.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DomainRow {
    /// The certificate in use.
    #[serde(rename = "c", default)]
    pub issued: Option<Issued>,
    /// The order under way.
    #[serde(rename = "w", default)]
    pub work: Option<Work>,
    /// The task that the authority has set for the order under way.
    #[serde(rename = "h", default)]
    pub challenge: Option<Challenge>,
    /// The last order, if it failed.
    #[serde(rename = "f", default)]
    pub failure: Option<Failure>,
}

impl Versioned for DomainRow {
    const VERSION: u8 = 1;
}

/// A certificate that an authority gave.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Issued {
    /// When it was ordered, in milliseconds since 1970.
    #[serde(rename = "o")]
    ordered_ms: u64,
    /// The certificate and its chain, in PEM.
    #[serde(rename = "p")]
    pub chain: String,
    /// The private key in PEM, sealed.
    #[serde(rename = "k")]
    key: Sealed,
    /// From when on it is valid, in milliseconds since 1970.
    #[serde(rename = "b")]
    pub not_before_ms: u64,
    /// Until when it is valid, in milliseconds since 1970.
    #[serde(rename = "a")]
    pub not_after_ms: u64,
}

impl Issued {
    /// Returns the time from which on it is to be renewed: when a third of its time is left.
    pub fn renew_at_ms(&self) -> u64 {
        let whole = self.not_after_ms.saturating_sub(self.not_before_ms);
        self.not_after_ms.saturating_sub(whole / 3)
    }
}

/// A node's claim to the order under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Work {
    /// A random name of the try.
    #[serde(rename = "i")]
    pub id: Id,
    /// When the others go on without it, in milliseconds since 1970.
    #[serde(rename = "u")]
    pub until_ms: u64,
}

/// A task that an authority sets for the proof that a domain is the cluster's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Challenge {
    /// The random name that the authority gave.
    #[serde(rename = "t")]
    pub token: String,
    /// The answer (RFC 8555, section 8.1).
    #[serde(rename = "a")]
    pub answer: String,
}

/// A failed order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The reason.
    #[serde(rename = "w")]
    pub why: String,
    /// The number of orders in a row that have failed.
    #[serde(rename = "n")]
    pub times: u32,
    /// When the next one may begin, in milliseconds since 1970.
    #[serde(rename = "u")]
    pub next_ms: u64,
}

/// A certificate as an authority gives it, with its key. Both are PEM.
pub struct NewCertificate {
    /// The certificate and its chain.
    pub chain: String,
    /// The private key.
    pub key: String,
    /// From when on it is valid, in milliseconds since 1970.
    pub not_before_ms: u64,
    /// Until when it is valid, in milliseconds since 1970.
    pub not_after_ms: u64,
}

/// An account at an authority.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Account {
    #[serde(rename = "d")]
    directory: String,
    #[serde(rename = "c")]
    credentials: Sealed,
}

impl Versioned for Account {
    const VERSION: u8 = 1;
}

impl DomainRow {
    /// Returns true if an order is to begin at this time. Times that a clock far ahead has noted do
    /// not count.
    pub fn is_due(&self, now_ms: u64) -> bool {
        let is_good = |issued: &Issued| {
            let is_new = issued.ordered_ms <= now_ms && now_ms < issued.ordered_ms + PAUSE_MS;
            is_new || now_ms < issued.renew_at_ms()
        };
        let is_ahead = |time_ms: u64| now_ms < time_ms && time_ms <= now_ms + LONGEST_WAIT_MS;
        !self.issued.as_ref().is_some_and(is_good)
            && !self.failure.as_ref().is_some_and(|f| is_ahead(f.next_ms))
            && !self.work.as_ref().is_some_and(|w| is_ahead(w.until_ms))
    }
}

impl Model {
    /// Reads the row of a domain's certificate.
    ///
    /// # Errors
    /// Errors of reading the row.
    #[boxed]
    pub async fn certificate_of(&self, name: DomainName<'_>) -> Result<DomainRow, Error> {
        let metadata = self.cluster().metadata(&of_domain(name)).await?;
        let row = metadata.map(|bytes| codec::decode(&bytes).map_err(damaged_row));
        Ok(row.transpose()?.unwrap_or_default())
    }

    /// Begins an order if one is due. Nobody else begins one before `time` is over. Returns the
    /// name of the try.
    ///
    /// # Errors
    /// Errors of changing the row.
    #[boxed]
    pub async fn begin_order(
        &self,
        name: DomainName<'_>,
        time: Duration,
    ) -> Result<Option<Id>, Error> {
        let (now_ms, id) = (self.now_ms(), self.random_id());
        let work = Work {
            id,
            until_ms: now_ms + time.as_millis() as u64,
        };
        let began = self.change_domain(name, |mut row| {
            row.is_due(now_ms).then(|| {
                row.work = Some(work);
                row.challenge = None;
                row
            })
        });
        Ok(began.await?.then_some(id))
    }

    /// Shows the authority's challenge to all nodes. Returns false if the try has taken too long.
    ///
    /// # Errors
    /// Errors of changing the row.
    #[boxed]
    pub async fn show_challenge(
        &self,
        name: DomainName<'_>,
        order: Id,
        challenge: &Challenge,
    ) -> Result<bool, Error> {
        self.change_order(name, order, |mut row| {
            row.challenge = Some(challenge.clone());
            row
        })
        .await
    }

    /// Ends an order with its certificate. Returns false if the try has taken too long.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`]; errors of changing the row.
    #[boxed]
    pub async fn end_order(
        &self,
        name: DomainName<'_>,
        order: Id,
        new: &NewCertificate,
    ) -> Result<bool, Error> {
        let issued = Issued {
            ordered_ms: self.now_ms(),
            chain: new.chain.clone(),
            key: self
                .seal_secret(Purpose::Certificate, name.domain, &new.key)
                .await?,
            not_before_ms: new.not_before_ms,
            not_after_ms: new.not_after_ms,
        };
        self.change_order(name, order, |_| DomainRow {
            issued: Some(issued.clone()),
            ..DomainRow::default()
        })
        .await
    }

    /// Ends an order that failed. The next one waits, longer after each failure.
    ///
    /// # Errors
    /// Errors of changing the row.
    #[boxed]
    pub async fn give_up_order(
        &self,
        name: DomainName<'_>,
        order: Id,
        why: &str,
    ) -> Result<bool, Error> {
        let now_ms = self.now_ms();
        let why: String = why.chars().take(MAX_WHY_CHARS).collect();
        self.change_order(name, order, |row| {
            let times = row.failure.map_or(0, |failure| failure.times);
            let wait = FIRST_WAIT_MS << times.min(10);
            let failure = Failure {
                why: why.clone(),
                times: times.saturating_add(1),
                next_ms: now_ms + wait.min(LONGEST_WAIT_MS),
            };
            DomainRow {
                issued: row.issued,
                failure: Some(failure),
                ..DomainRow::default()
            }
        })
        .await
    }

    /// Returns the private key of a certificate, in PEM.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if no secret of this node opens it.
    #[boxed]
    pub async fn certificate_key(&self, domain: &str, issued: &Issued) -> Result<String, Error> {
        self.open_secret(Purpose::Certificate, domain, &issued.key)
            .await
    }

    /// Returns what the account at an authority needs to be used; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`]; errors of reading the row.
    #[boxed]
    pub async fn authority_account(&self, directory: &str) -> Result<Option<String>, Error> {
        let Some(metadata) = self.cluster().metadata(&authority(directory)).await? else {
            return Ok(None);
        };
        let account: Account = codec::decode(&metadata).map_err(damaged_row)?;
        let credentials = self
            .open_secret(Purpose::Certificate, directory, &account.credentials)
            .await?;
        Ok(Some(credentials))
    }

    /// Keeps what the account at an authority needs to be used, in place of what there was. Of two
    /// nodes that make one at the same time, both can go on.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`]; errors of writing the row.
    #[boxed]
    pub async fn keep_authority_account(
        &self,
        directory: &str,
        credentials: &str,
    ) -> Result<(), Error> {
        let account = Account {
            directory: directory.to_owned(),
            credentials: self
                .seal_secret(Purpose::Certificate, directory, credentials)
                .await?,
        };
        let value = crate::control::row(codec::encode(&account));
        let how = WriteOptions::durable(Durability::Fsync);
        let row = authority(directory);
        let kept = self.cluster().write(&row, Some(value), how);
        Ok(kept.await.map(drop)?)
    }

    /// Seals the keys of certificates and the credentials of accounts by the newest key of the
    /// ring. Tells for each row whether it was changed.
    pub(crate) async fn reseal_certificate_rows(&self) -> Result<Vec<Result<bool, Error>>, Error> {
        let (control, all) = (PartitionId::CONTROL, rowkeys::ALL_CERTIFICATES);
        let mut sealed = Vec::new();
        for row in self.cluster().scan_whole(control, &all).await? {
            sealed.push(reseal::reseal(self, &row.key).await);
        }
        Ok(sealed)
    }

    /// Changes the row of a domain while an order is under way. Returns false if it is not any
    /// more.
    async fn change_order(
        &self,
        name: DomainName<'_>,
        order: Id,
        change: impl Fn(DomainRow) -> DomainRow + Send + Sync,
    ) -> Result<bool, Error> {
        self.change_domain(name, |row| {
            let is_mine = row.work.is_some_and(|work| work.id == order);
            is_mine.then(|| change(row))
        })
        .await
    }

    /// Changes the row of a domain, unless `change` returns nothing. Returns true if it did.
    async fn change_domain(
        &self,
        name: DomainName<'_>,
        change: impl Fn(DomainRow) -> Option<DomainRow> + Send + Sync,
    ) -> Result<bool, Error> {
        let how = WriteOptions::durable(Durability::Fsync);
        let decide = |current: Option<&Value>| {
            let row = current.map(|value| codec::decode::<DomainRow>(&value.metadata));
            match row.transpose() {
                Ok(row) => match change(row.unwrap_or_default()) {
                    Some(new) => Decision::Write(Some(crate::control::row(codec::encode(&new)))),
                    None => Decision::Abort(Ok(false)),
                },
                Err(error) => Decision::Abort(Err(damaged_row(error))),
            }
        };
        match self.cluster().update(&of_domain(name), how, decide).await? {
            Ok(_) => Ok(true),
            Err(refused) => refused,
        }
    }
}

fn of_domain(name: DomainName<'_>) -> RowKey {
    let key = [&hash(name.directory)[..], name.domain.as_bytes()].concat();
    rowkeys::certificate(b'd', &key)
}

fn authority(directory: &str) -> RowKey {
    rowkeys::certificate(b'a', &hash(directory))
}

fn hash(directory: &str) -> [u8; 8] {
    placement_hash(&[directory.as_bytes()]).to_be_bytes()
}

#[cfg(test)]
mod tests;
