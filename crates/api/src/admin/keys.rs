//! Access keys.

use archipel_model::{AccessKey, Error, Secret};

use super::Admin;
use super::answer::Refusal;
use super::buckets::grant;
use super::types::{ChangeKey, CreateKey, KeyInfo, KeyWithSecret};

pub(super) fn list(admin: &Admin) -> Vec<KeyInfo> {
    let keys = admin.model.access_keys();
    keys.iter().map(|key| describe(admin, key)).collect()
}

pub(super) async fn create(admin: &Admin, ask: CreateKey) -> Result<KeyWithSecret, Refusal> {
    let model = &admin.model;
    let key = match (ask.id, ask.secret) {
        (None, None) => {
            model
                .create_access_key(&ask.name, ask.create_bucket)
                .await?
        }
        (Some(id), Some(secret)) => {
            let secret = Secret::new(secret);
            model
                .import_access_key(&id, secret, &ask.name, ask.create_bucket)
                .await?
        }
        _ => return Err(Refusal::invalid("an import needs both id and secret")),
    };
    Ok(reveal(admin, &key))
}

pub(super) fn info(admin: &Admin, id: &str) -> Result<KeyInfo, Refusal> {
    let key = admin.model.access_key(id).ok_or(Error::NoSuchAccessKey)?;
    Ok(describe(admin, &key))
}

pub(super) fn with_secret(admin: &Admin, id: &str) -> Result<KeyWithSecret, Refusal> {
    let key = admin.model.access_key(id).ok_or(Error::NoSuchAccessKey)?;
    Ok(reveal(admin, &key))
}

pub(super) async fn change(admin: &Admin, id: &str, change: ChangeKey) -> Result<KeyInfo, Refusal> {
    if let Some(may) = change.create_bucket {
        admin.model.set_may_create_buckets(id, may).await?;
    }
    info(admin, id)
}

fn reveal(admin: &Admin, key: &AccessKey) -> KeyWithSecret {
    KeyWithSecret {
        key: describe(admin, key),
        secret: key.secret.expose().to_owned(),
    }
}

fn describe(admin: &Admin, key: &AccessKey) -> KeyInfo {
    let buckets = admin.model.buckets();
    let grants = buckets.iter().filter_map(|bucket| {
        let permissions = bucket.grants.get(&key.id)?;
        Some(grant(bucket, &key.id, *permissions))
    });
    KeyInfo {
        id: key.id.clone(),
        name: key.name.clone(),
        created_ms: key.created_ms,
        create_bucket: key.may_create_buckets,
        grants: grants.collect(),
    }
}
