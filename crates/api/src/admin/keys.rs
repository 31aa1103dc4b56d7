//! Access keys.

use std::sync::Arc;

use archipel_model::{AccessKey, Bucket, Error, Secret};

use super::Admin;
use super::answer::Refusal;
use super::buckets::grant;
use super::types::{ChangeKey, CreateKey, KeyInfo, KeyWithSecret};

pub(super) fn list(admin: &Admin) -> Result<Vec<KeyInfo>, Refusal> {
    let buckets = admin.model.buckets()?;
    let keys = admin.model.access_keys()?;
    Ok(keys.iter().map(|key| describe(key, &buckets)).collect())
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
    // A new key has no grants: what was made is shown whatever is known of buckets.
    Ok(reveal(&key, &[]))
}

pub(super) async fn info(admin: &Admin, id: &str) -> Result<KeyInfo, Refusal> {
    let (key, buckets) = find(admin, id).await?;
    Ok(describe(&key, &buckets))
}

pub(super) async fn with_secret(admin: &Admin, id: &str) -> Result<KeyWithSecret, Refusal> {
    let (key, buckets) = find(admin, id).await?;
    Ok(reveal(&key, &buckets))
}

/// A key, and all buckets.
async fn find(admin: &Admin, id: &str) -> Result<(Arc<AccessKey>, Vec<Arc<Bucket>>), Refusal> {
    let key = admin.model.find_access_key(id).await?;
    let key = key.ok_or(Error::NoSuchAccessKey)?;
    Ok((key, admin.model.buckets()?))
}

pub(super) async fn change(admin: &Admin, id: &str, change: ChangeKey) -> Result<KeyInfo, Refusal> {
    if let Some(may) = change.create_bucket {
        admin.model.set_may_create_buckets(id, may).await?;
    }
    info(admin, id).await
}

fn reveal(key: &AccessKey, buckets: &[Arc<Bucket>]) -> KeyWithSecret {
    KeyWithSecret {
        key: describe(key, buckets),
        secret: key.secret.expose().to_owned(),
    }
}

fn describe(key: &AccessKey, buckets: &[Arc<Bucket>]) -> KeyInfo {
    let grants = buckets.iter().filter_map(|bucket| {
        let permissions = bucket.permissions(key);
        (!permissions.is_empty()).then(|| grant(&bucket.name, &key.id, permissions))
    });
    KeyInfo {
        id: key.id.clone(),
        name: key.name.clone(),
        created_ms: key.created_ms,
        create_bucket: key.may_create_buckets,
        grants: grants.collect(),
    }
}
