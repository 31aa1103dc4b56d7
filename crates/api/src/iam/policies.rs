//! Managed policies and their versions.

use std::sync::Arc;

use archipel_access::Action;
use archipel_model::identity::{BUILT_IN, ManagedPolicy, NewPolicy, PolicyRef, PolicyVersion};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        Action::CreatePolicy => create(ask, xml).await?,
        Action::GetPolicy => {
            let policy = ask.policy().await?;
            show(ask, xml, &policy)?;
        }
        Action::ListPolicies => list(ask, xml)?,
        Action::DeletePolicy => ask.done(ask.model.delete_policy(ask.own_policy().await?).await?),
        Action::CreatePolicyVersion => create_version(ask, xml).await?,
        Action::GetPolicyVersion => {
            let policy = ask.policy().await?;
            let number = number(ask)?;
            let version = policy.versions.get(&number).ok_or_else(missing(number))?;
            xml.open("PolicyVersion");
            reply::policy(xml, "Document", version.policy.text());
            write_version(xml, &policy, number, version);
            xml.close();
        }
        Action::ListPolicyVersions => list_versions(ask, xml).await?,
        Action::DeletePolicyVersion => {
            let number = number(ask)?;
            let changed = ask.model.change_entity(
                ask.own_policy().await?,
                move |policy: &mut ManagedPolicy| remove_version(policy, number),
            );
            ask.done(changed.await?);
        }
        Action::SetDefaultPolicyVersion => {
            let (number, now_ms) = (number(ask)?, ask.now_ms);
            let changed = ask.model.change_entity(
                ask.own_policy().await?,
                move |policy: &mut ManagedPolicy| {
                    if !policy.versions.contains_key(&number) {
                        return Err(no_version(number));
                    }
                    policy.default = number;
                    policy.changed_ms = now_ms;
                    Ok(())
                },
            );
            ask.done(changed.await?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn list_versions(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let policy = ask.policy().await?;
    // Newest first, as the sort of their complements has it.
    let place = |number: u32| format!("{:010}", u32::MAX - number);
    let versions = policy.versions.iter().rev();
    let versions = versions.map(|(n, version)| (place(*n), (*n, version)));
    let versions = versions.collect();
    reply::page(&ask.form, xml, "Versions", versions, |xml, (n, version)| {
        write_version(xml, &policy, *n, version);
    })
}

fn remove_version(policy: &mut ManagedPolicy, number: u32) -> Result<(), archipel_model::Error> {
    if policy.default == number {
        let why = "Cannot delete the default version of a policy.";
        return Err(archipel_model::Error::EntityInUse(why.into()));
    }
    match policy.versions.remove(&number) {
        Some(_) => Ok(()),
        None => Err(no_version(number)),
    }
}

fn no_version(number: u32) -> archipel_model::Error {
    let why = format!("Policy version v{number} does not exist.");
    archipel_model::Error::NoSuchEntity(why)
}

fn missing(number: u32) -> impl Fn() -> IamError {
    move || no_version(number).into()
}

/// Reads `VersionId`: `v1`.
fn number(ask: &Ask<'_>) -> IamResult<u32> {
    let text = ask.form.required("VersionId")?;
    let number = text.strip_prefix('v').and_then(|text| text.parse().ok());
    number.ok_or_else(|| IamError::invalid(format!("VersionId: {text:?} is no version")))
}

async fn create(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let policy = ask.model.create_policy(NewPolicy {
        name: ask.form.required("PolicyName")?.to_owned(),
        path: ask.path()?,
        description: ask.form.get("Description").unwrap_or_default().to_owned(),
        document: ask.form.required("PolicyDocument")?.to_owned(),
        tags: ask.form.tags()?,
    });
    show(ask, xml, &*policy.await?)
}

/// Writes a policy with its tags, as answers about one policy have it.
fn show(ask: &Ask<'_>, xml: &mut Writer, policy: &ManagedPolicy) -> IamResult<()> {
    xml.open("Policy");
    write(ask, xml, policy)?;
    reply::tags(xml, &policy.tags);
    xml.close();
    Ok(())
}

async fn create_version(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let document = ask.form.required("PolicyDocument")?;
    let counts = ask.form.flag("SetAsDefault")?;
    let name = ask.own_policy().await?;
    let changed = ask.model.add_policy_version(name, document, counts).await?;
    let policy = ask.done(changed);
    let number = policy.newest;
    let version = policy.versions.get(&number).ok_or_else(missing(number))?;
    xml.open("PolicyVersion");
    write_version(xml, &policy, number, version);
    xml.close();
    Ok(())
}

fn list(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let (own, built_in) = match ask.form.get("Scope") {
        None | Some("All") => (true, true),
        Some("Local") => (true, false),
        Some("AWS") => (false, true),
        Some(other) => return Err(IamError::invalid(format!("Scope: {other:?} is unknown"))),
    };
    let attached = ask.form.flag("OnlyAttached")?;
    let mut policies = Vec::new();
    if own {
        policies.extend(ask.model.entities::<ManagedPolicy>()?);
    }
    if built_in {
        policies.extend(BUILT_IN.iter().map(|policy| Arc::new(policy.clone())));
    }
    let holders = ask.model.holders()?;
    let mut wanted = Vec::new();
    for policy in policies {
        let count = holders.get(&PolicyRef::to(&policy)).map_or(0, Vec::len);
        if ask.wants(&policy.path) && (!attached || count > 0) {
            // Two policies may have one name: one here, one that every cluster has.
            wanted.push((policy.name.clone(), (count, policy)));
        }
    }
    reply::page(
        &ask.form,
        xml,
        "Policies",
        wanted,
        |xml, (count, policy)| {
            write_counted(xml, policy, *count);
        },
    )
}

fn write(ask: &Ask<'_>, xml: &mut Writer, policy: &ManagedPolicy) -> IamResult<()> {
    let holders = ask.model.holders()?;
    let count = holders.get(&PolicyRef::to(policy)).map_or(0, Vec::len);
    write_counted(xml, policy, count);
    if !policy.description.is_empty() {
        xml.text("Description", &policy.description);
    }
    Ok(())
}

fn write_counted(xml: &mut Writer, policy: &ManagedPolicy, count: usize) {
    xml.text("PolicyName", &policy.name);
    xml.text("PolicyId", &policy.id());
    xml.text("Arn", &policy.arn());
    xml.text("Path", &policy.path);
    xml.value("DefaultVersionId", format_args!("v{}", policy.default));
    xml.value("AttachmentCount", count);
    xml.value("PermissionsBoundaryUsageCount", 0);
    xml.value("IsAttachable", true);
    reply::time(xml, "CreateDate", policy.created_ms);
    reply::time(xml, "UpdateDate", policy.changed_ms);
}

fn write_version(xml: &mut Writer, policy: &ManagedPolicy, number: u32, version: &PolicyVersion) {
    xml.value("VersionId", format_args!("v{number}"));
    xml.value("IsDefaultVersion", number == policy.default);
    reply::time(xml, "CreateDate", version.created_ms);
}
