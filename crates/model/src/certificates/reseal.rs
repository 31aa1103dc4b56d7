//! Seals the secrets of a row of certificates by the newest key of the keyring.

use archipel_base::codec;
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};

use super::{Account, DomainRow};
use crate::Model;
use crate::cipher::sealed::{OpenSecrets, Purpose, Sealed, Sealer};
use crate::error::{Error, damaged_row};

/// The bytes of a row's key before the domain: tag, kind, hash of the directory.
const BEFORE_DOMAIN: usize = 10;

/// Seals the secrets of a row again. Returns false if that is not needed.
pub(super) async fn reseal(model: &Model, row: &RowKey) -> Result<bool, Error> {
    let Some(sealer) = model.sealer().await? else {
        return Ok(false);
    };
    let decide = |current: Option<&Value>| {
        let Some(value) = current else {
            return Decision::Abort(None);
        };
        match changed(model, &sealer, row, &value.metadata) {
            Ok(Some(metadata)) => Decision::Write(Some(crate::control::row(metadata))),
            Ok(None) => Decision::Abort(None),
            Err(error) => Decision::Abort(Some(error)),
        }
    };
    let how = WriteOptions::durable(Durability::Fsync);
    match model.cluster().update(row, how, decide).await? {
        Ok(()) => Ok(true),
        Err(None) => Ok(false),
        Err(Some(error)) => Err(error),
    }
}

fn changed(
    model: &Model,
    sealer: &Sealer,
    row: &RowKey,
    metadata: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let again = |name: &str, sealed: &mut Sealed| -> Result<bool, Error> {
        if sealed.by == sealer.by() {
            return Ok(false);
        }
        let secret = model.keyring().open(Purpose::Certificate, name, sealed);
        let closed = || Error::NoMasterKey(format!("the secret of {name} does not open"));
        let new = sealer.seal(Purpose::Certificate, name, &secret.ok_or_else(closed)?);
        *sealed = new.ok_or_else(Error::not_sealed)?;
        Ok(true)
    };
    match row.key.get(1) {
        Some(b'd') => {
            let mut domain: DomainRow = codec::decode(metadata).map_err(damaged_row)?;
            let name = row.key.get(BEFORE_DOMAIN..).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let Some(issued) = &mut domain.issued else {
                return Ok(None);
            };
            Ok(again(&name, &mut issued.key)?.then(|| codec::encode(&domain)))
        }
        Some(b'a') => {
            let mut account: Account = codec::decode(metadata).map_err(damaged_row)?;
            let name = account.directory.clone();
            Ok(again(&name, &mut account.credentials)?.then(|| codec::encode(&account)))
        }
        _ => Ok(None),
    }
}
