//! Changes of a bucket's rules: the form says which.

use archipel_api::admin::types::{
    BucketEncryption, BucketLockInfo, BucketOwnership, BucketRule, BucketTags, BucketVersioning,
    CorsRule, LockMode, NotificationRule, ObjectOwnership, PolicyDocument, PublicAccess, QuotaUse,
    VersioningState,
};
use axum::extract::{Path, State};
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::App;
use crate::backend::{Backend, Seen, path};
use crate::fault::Fault;
use crate::held;
use crate::page::Shown;
use crate::quota;
use crate::render::see;
use crate::request::{Fields, Posted};
use crate::tags;

use super::{Rules, policy_of};

/// Changes a rule. A text that is refused is shown again with the reason.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let here = format!("{}/rules", path(&["buckets", &name]));
    let text = match posted.fields.get("change") {
        "tags" => "tags",
        _ => "text",
    };
    match set(&posted.user.admin(&app), &name, &posted.fields).await {
        Ok(()) => Ok(see(&here)),
        Err(fault) if posted.fields.get(text).is_empty() => Err(fault),
        Err(fault) => held::again(&posted, text, &here, &here, fault),
    }
}

async fn set(admin: &Backend<'_>, bucket: &str, fields: &Fields) -> Result<(), Fault> {
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
            let (now, seen) = admin.get_seen::<BucketTags>(&at("tags")).await?;
            fields.check_shown(&tags::write(&now.tags))?;
            let ask = BucketTags { tags };
            let _: BucketTags = admin.put_if(&at("tags"), &ask, &seen).await?;
        }
        "add-rule" => {
            let added = rule(fields)?;
            let at = at("lifecycle");
            // Changes of others since the page showed the rules stay, too.
            let (mut rules, seen) = admin.get_seen::<Rules<BucketRule>>(&at).await?;
            rules.rules.push(added);
            set_rules(admin, &at, &rules, &seen).await?;
        }
        "remove-rule" => {
            let removed = fields.key("rule")?;
            let at = at("lifecycle");
            let (mut rules, seen) = admin.get_seen::<Rules<BucketRule>>(&at).await?;
            fields.check_shown(&rules.text()?)?;
            rules.rules.retain(|rule| rule.id != removed);
            set_rules(admin, &at, &rules, &seen).await?;
        }
        // A text that was lost by mistake deletes nothing.
        "lifecycle" if fields.get("text").trim().is_empty() => {
            let why = "the text is empty; to delete all rules, write {\"rules\": []}";
            return Err(Fault::invalid(why));
        }
        "policy" if fields.get("text").is_empty() => {
            let why = "the text is empty; to end the policy, use the button that removes it";
            return Err(Fault::invalid(why));
        }
        "lifecycle" => set_text::<BucketRule>(admin, &at("lifecycle"), fields).await?,
        "cors" => set_text::<CorsRule>(admin, &at("cors"), fields).await?,
        "notification" => {
            set_text::<NotificationRule>(admin, &at("notifications"), fields).await?;
        }
        "policy" => {
            let document = fields.text("text");
            let (now, seen) = policy_of(admin, &at("policy")).await?;
            fields.check_shown(&now)?;
            let ask = PolicyDocument { document };
            let _: PolicyDocument = admin.put_if(&at("policy"), &ask, &seen).await?;
        }
        "no-policy" => {
            let (now, seen) = policy_of(admin, &at("policy")).await?;
            fields.check_shown(&now)?;
            admin.delete_if(&at("policy"), &seen).await?;
        }
        change @ ("encryption" | "no-encryption") => {
            let ask = BucketEncryption {
                enabled: change == "encryption",
                bucket_key: false,
                blocked: None,
            };
            let _: BucketEncryption = admin.send(put, &at("encryption"), &ask).await?;
        }
        "block" => {
            let ask = PublicAccess {
                block_public_acls: fields.is_checked("BlockPublicAcls"),
                ignore_public_acls: fields.is_checked("IgnorePublicAcls"),
                block_public_policy: fields.is_checked("BlockPublicPolicy"),
                restrict_public_buckets: fields.is_checked("RestrictPublicBuckets"),
            };
            let _: PublicAccess = admin.send(put, &at("public-access"), &ask).await?;
        }
        "ownership" => {
            let ownership = ownership(fields.get("ownership"))?;
            let ask = BucketOwnership { ownership };
            let _: BucketOwnership = admin.send(put, &at("ownership"), &ask).await?;
        }
        other => return Err(Fault::unknown_change(other)),
    }
    Ok(())
}

/// Replaces rules by those of a form, if they are still the ones that its page showed.
async fn set_text<R: Serialize + DeserializeOwned>(
    admin: &Backend<'_>,
    at: &str,
    fields: &Fields,
) -> Result<(), Fault> {
    let rules = Rules::<R>::read(&fields.text("text"))?;
    let (now, seen) = admin.get_seen::<Rules<R>>(at).await?;
    fields.check_shown(&now.text()?)?;
    set_rules(admin, at, &rules, &seen).await
}

/// Sets the rules, if those so far are the ones that were seen.
async fn set_rules<R: Serialize + DeserializeOwned>(
    admin: &Backend<'_>,
    at: &str,
    rules: &Rules<R>,
    seen: &Seen,
) -> Result<(), Fault> {
    if rules.rules.is_empty() {
        return admin.delete_if(at, seen).await;
    }
    let _: Rules<R> = admin.put_if(at, rules, seen).await?;
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

fn ownership(name: &str) -> Result<ObjectOwnership, Fault> {
    let wrong = |_| Fault::invalid(format!("there is no ownership {name:?}"));
    serde_json::from_value(Value::from(name)).map_err(wrong)
}

fn lock(fields: &Fields) -> Result<BucketLockInfo, Fault> {
    let mode = match fields.get("mode") {
        "" => None,
        "governance" => Some(LockMode::Governance),
        "compliance" => Some(LockMode::Compliance),
        other => return Err(Fault::invalid(format!("there is no mode {other:?}"))),
    };
    if mode == Some(LockMode::Compliance) {
        fields.check_sure()?;
    }
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
