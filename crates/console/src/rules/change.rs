//! Changes of a bucket's rules: the form says which.

use archipel_api::admin::types::{
    BucketLifecycle, BucketLockInfo, BucketRule, BucketTags, BucketVersioning, LockMode,
    PolicyDocument, QuotaUse, VersioningState,
};
use axum::extract::{Path, State};
use http::{HeaderMap, Method};

use crate::App;
use crate::backend::{Backend, path};
use crate::fault::Fault;
use crate::held;
use crate::objects::store_of;
use crate::page::Shown;
use crate::quota;
use crate::render::see;
use crate::request::{Fields, Posted};
use crate::store::Store;
use crate::tags;

const ENCRYPTION: &str = "<ServerSideEncryptionConfiguration><Rule>\
    <ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>\
    </ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";

/// The values of ObjectOwnership.
const OWNERSHIPS: [&str; 3] = [
    "BucketOwnerEnforced",
    "BucketOwnerPreferred",
    "ObjectWriter",
];

/// Changes a rule. A document that is refused is shown again with the reason.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let here = format!("{}/rules", path(&["buckets", &name]));
    let done = match posted.fields.get("change") {
        "cors" | "notification" | "encryption" | "no-encryption" | "block" | "ownership" => {
            by_s3(&app, &name, &posted).await
        }
        _ => by_admin(&posted.user.admin(&app), &name, &posted.fields).await,
    };
    match done {
        Ok(()) => Ok(see(&here)),
        Err(fault) if !posted.fields.get("text").is_empty() => {
            held::again(&posted, "text", &here, &here, fault)
        }
        Err(fault) => Err(fault),
    }
}

async fn by_admin(admin: &Backend<'_>, bucket: &str, fields: &Fields) -> Result<(), Fault> {
    let at = |part: &str| path(&["v1", "buckets", bucket, part]);
    let put = Method::PUT;
    match fields.get("change") {
        "keep-versions" | "suspend-versions" => {
            let state = match fields.get("change") {
                "keep-versions" => VersioningState::Enabled,
                _ => VersioningState::Suspended,
            };
            let ask = BucketVersioning { state };
            let _: BucketVersioning = admin.send(put, &at("versioning"), &ask).await?;
        }
        "lock" => {
            let ask = lock(fields)?;
            let _: BucketLockInfo = admin.send(put, &at("lock"), &ask).await?;
        }
        "quota" => {
            let ask = quota::read(fields)?;
            let _: QuotaUse = admin.send(put, &at("quota"), &ask).await?;
        }
        "tags" => {
            let tags = tags::read(&fields.text("tags"))?;
            let ask = BucketTags { tags };
            let _: BucketTags = admin.send(put, &at("tags"), &ask).await?;
        }
        "add-rule" => {
            let mut rules: BucketLifecycle = admin.get(&at("lifecycle")).await?;
            rules.rules.push(rule(fields)?);
            let _: BucketLifecycle = admin.send(put, &at("lifecycle"), &rules).await?;
        }
        "remove-rule" => {
            let mut rules: BucketLifecycle = admin.get(&at("lifecycle")).await?;
            rules.rules.retain(|rule| rule.id != fields.exact("rule"));
            set_rules(admin, &at("lifecycle"), &rules).await?;
        }
        "lifecycle" => {
            let rules = serde_json::from_str(&fields.text("text"));
            let rules = rules.map_err(|error| Fault::invalid(format!("{error}")))?;
            set_rules(admin, &at("lifecycle"), &rules).await?;
        }
        "policy" => {
            let document = fields.text("text");
            if document.is_empty() {
                return admin.delete(&at("policy")).await;
            }
            let ask = PolicyDocument { document };
            let _: PolicyDocument = admin.send(put, &at("policy"), &ask).await?;
        }
        other => return Err(Fault::unknown_change(other)),
    }
    Ok(())
}

async fn by_s3(app: &App, bucket: &str, posted: &Posted) -> Result<(), Fault> {
    let fields = &posted.fields;
    let (_, store) = store_of(app, &posted.user, bucket, "").await?;
    match fields.get("change") {
        "cors" => match fields.text("text") {
            text if text.is_empty() => store.delete_document("cors").await,
            text => put(&store, "cors", text).await,
        },
        "notification" => match fields.text("text") {
            text if text.is_empty() => {
                let none = "<NotificationConfiguration/>".to_owned();
                put(&store, "notification", none).await
            }
            text => put(&store, "notification", text).await,
        },
        "encryption" => put(&store, "encryption", ENCRYPTION.into()).await,
        "no-encryption" => store.delete_document("encryption").await,
        "block" => {
            let names = [
                "BlockPublicAcls",
                "IgnorePublicAcls",
                "BlockPublicPolicy",
                "RestrictPublicBuckets",
            ];
            let lines = names.map(|name| format!("<{name}>{}</{name}>", fields.is_checked(name)));
            let root = "PublicAccessBlockConfiguration";
            let text = format!("<{root}>{}</{root}>", lines.concat());
            put(&store, "publicAccessBlock", text).await
        }
        _ => {
            let wanted = fields.get("ownership");
            if !OWNERSHIPS.contains(&wanted) {
                return Err(Fault::invalid(format!("there is no ownership {wanted:?}")));
            }
            let rule = format!("<Rule><ObjectOwnership>{wanted}</ObjectOwnership></Rule>");
            let text = format!("<OwnershipControls>{rule}</OwnershipControls>");
            put(&store, "ownershipControls", text).await
        }
    }
}

async fn put(store: &Store<'_>, name: &str, text: String) -> Result<(), Fault> {
    let query = [(name, "")];
    store.put_document("", &query, HeaderMap::new(), text).await
}

async fn set_rules(admin: &Backend<'_>, at: &str, rules: &BucketLifecycle) -> Result<(), Fault> {
    if rules.rules.is_empty() {
        return admin.delete(at).await;
    }
    let _: BucketLifecycle = admin.send(Method::PUT, at, rules).await?;
    Ok(())
}

/// Reads a whole number, unless the field is absent or empty.
fn number<T: std::str::FromStr>(fields: &Fields, name: &str) -> Result<Option<T>, Fault> {
    let read = |text: String| {
        let wrong = |_| Fault::invalid(format!("{text:?} is no whole number that is allowed here"));
        text.parse().map_err(wrong)
    };
    fields.some(name).map(read).transpose()
}

fn lock(fields: &Fields) -> Result<BucketLockInfo, Fault> {
    let mode = match fields.get("mode") {
        "" => None,
        "governance" => Some(LockMode::Governance),
        "compliance" => Some(LockMode::Compliance),
        other => return Err(Fault::invalid(format!("there is no mode {other:?}"))),
    };
    let days = number(fields, "days")?;
    let years = number(fields, "years")?;
    if mode.is_some() && days.is_none() && years.is_none() {
        return Err(Fault::invalid("say for how many days or years"));
    }
    Ok(BucketLockInfo {
        enabled: true,
        mode,
        days: days.filter(|_| mode.is_some()),
        years: years.filter(|_| mode.is_some()),
    })
}

fn rule(fields: &Fields) -> Result<BucketRule, Fault> {
    let rule = BucketRule {
        prefix: Some(fields.exact("prefix").to_owned()),
        expire_days: number(fields, "expire")?,
        noncurrent_days: number(fields, "noncurrent")?,
        abort_days: number(fields, "abort")?,
        ..BucketRule::default()
    };
    let days = [rule.expire_days, rule.noncurrent_days, rule.abort_days];
    match days.iter().all(Option::is_none) {
        true => Err(Fault::invalid("say after how many days something expires")),
        false => Ok(rule),
    }
}
