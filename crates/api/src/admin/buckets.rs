//! Buckets and grants.

use archipel_model::website::Pages;
use archipel_model::{Bucket, Error, GrantChange, Permissions, Website};
use http::StatusCode;

use super::Admin;
use super::answer::Refusal;
use super::types::{
    AddAlias, BucketInfo, BucketSummary, ChangeGrant, CreateBucket, Grant, NameOfKey, SetWebsite,
    WebsiteInfo,
};

pub(super) fn list(admin: &Admin) -> Result<Vec<BucketSummary>, Refusal> {
    let summary = |bucket: &Bucket| {
        Ok(BucketSummary {
            name: bucket.name.clone(),
            created_ms: bucket.created_ms,
            grants: admin.model.grants_of(bucket)?.len(),
        })
    };
    let buckets = admin.model.buckets()?;
    buckets.iter().map(|bucket| summary(bucket)).collect()
}

pub(super) async fn create(admin: &Admin, ask: CreateBucket) -> Result<BucketInfo, Refusal> {
    let bucket = admin
        .model
        .create_bucket(&ask.name, ask.owner.as_deref())
        .await?;
    describe(admin, &bucket).await
}

pub(super) async fn info(admin: &Admin, name: &str) -> Result<BucketInfo, Refusal> {
    let bucket = admin.model.find_bucket(name).await?;
    describe(admin, &*bucket.ok_or(Error::NoSuchBucket)?).await
}

async fn describe(admin: &Admin, bucket: &Bucket) -> Result<BucketInfo, Refusal> {
    let usage = admin.model.bucket_usage(bucket).await?;
    let grants = admin.model.grants_of(bucket)?.into_iter();
    let mut names_of_keys = Vec::new();
    for key in admin.model.access_keys()? {
        let own = key.names.iter().filter(|(_, alias)| alias.id == bucket.id);
        names_of_keys.extend(own.map(|(name, _)| NameOfKey {
            key: key.id.clone(),
            name: name.clone(),
        }));
    }
    Ok(BucketInfo {
        aliases: admin.model.aliases_of(bucket)?,
        names_of_keys,
        id: bucket.id.to_string(),
        name: bucket.name.clone(),
        created_ms: bucket.created_ms,
        objects: usage.objects,
        bytes: usage.bytes,
        grants: grants
            .map(|(key, permissions)| grant(&bucket.name, &key.id, permissions))
            .collect(),
    })
}

/// Gives a bucket a further name, for everybody or for one access key.
pub(super) async fn add_alias(
    admin: &Admin,
    bucket: &str,
    ask: AddAlias,
) -> Result<BucketInfo, Refusal> {
    let named = match &ask.key {
        None => admin.model.add_alias(bucket, &ask.name).await?,
        Some(key) => admin.model.add_name_of_key(bucket, key, &ask.name).await?,
    };
    describe(admin, &named).await
}

/// Takes a further name away.
pub(super) async fn remove_alias(
    admin: &Admin,
    bucket: &str,
    name: &str,
    key: Option<&str>,
) -> Result<(), Refusal> {
    match key {
        None => admin.model.remove_alias(bucket, name).await?,
        Some(key) => admin.model.remove_name_of_key(bucket, key, name).await?,
    };
    Ok(())
}

pub(super) async fn website(admin: &Admin, name: &str) -> Result<WebsiteInfo, Refusal> {
    let bucket = admin.model.find_bucket(name).await?;
    describe_website(&*bucket.ok_or(Error::NoSuchBucket)?)
}

/// Makes the bucket a website. Routing rules stay: only the S3 API changes them.
pub(super) async fn set_website(
    admin: &Admin,
    name: &str,
    set: SetWebsite,
) -> Result<WebsiteInfo, Refusal> {
    if set.index.is_empty() || set.index.contains('/') {
        return Err(Refusal::invalid(
            "index must be the name of a page without slash, such as index.html",
        ));
    }
    if set.error.as_deref() == Some("") {
        return Err(Refusal::invalid("error must be the key of a page"));
    }
    let change = move |now: Option<&Website>| {
        let rules = match now {
            Some(Website::Pages(pages)) => pages.rules.clone(),
            _ => Vec::new(),
        };
        Some(Website::Pages(Pages {
            index: set.index.clone(),
            error: set.error.clone(),
            rules,
        }))
    };
    describe_website(&*admin.model.set_website(name, change).await?)
}

fn describe_website(bucket: &Bucket) -> Result<WebsiteInfo, Refusal> {
    let mut info = WebsiteInfo {
        bucket: bucket.name.clone(),
        index: None,
        error: None,
        rules: 0,
        redirect: None,
    };
    match &bucket.website {
        Some(Website::Pages(pages)) => {
            info.index = Some(pages.index.clone());
            info.error = pages.error.clone();
            info.rules = pages.rules.len();
        }
        Some(Website::Redirect(all)) => {
            let scheme = all.protocol.as_ref().map(|protocol| format!("{protocol}:"));
            info.redirect = Some(format!("{}//{}", scheme.unwrap_or_default(), all.host));
        }
        None => {
            let message = format!("the bucket {} is no website", bucket.name);
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "NoSuchWebsite",
                message,
            ));
        }
    }
    Ok(info)
}

/// Describes the permissions of `key` on `bucket`.
pub(super) fn grant(bucket: &str, key: &str, permissions: Permissions) -> Grant {
    Grant {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        read: permissions.read,
        write: permissions.write,
        owner: permissions.owner,
    }
}

pub(super) async fn change_grant(
    admin: &Admin,
    name: &str,
    key: &str,
    change: ChangeGrant,
) -> Result<Grant, Refusal> {
    let change = GrantChange {
        read: change.read,
        write: change.write,
        owner: change.owner,
    };
    let (bucket, permissions) = admin.model.change_grant(name, key, change).await?;
    Ok(grant(&bucket.name, key, permissions))
}
