//! Inline policies of users, groups and roles.

use archipel_access::Action;
use archipel_model::identity::{Attached, Group, IdentityPolicy, Role, User, check_name};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

/// The longest name of a policy.
pub const MAX_NAME: usize = 128;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        Action::PutUserPolicy => put::<User>(ask, "UserName").await?,
        Action::PutGroupPolicy => put::<Group>(ask, "GroupName").await?,
        Action::PutRolePolicy => put::<Role>(ask, "RoleName").await?,
        Action::GetUserPolicy => get::<User>(ask, "UserName", xml).await?,
        Action::GetGroupPolicy => get::<Group>(ask, "GroupName", xml).await?,
        Action::GetRolePolicy => get::<Role>(ask, "RoleName", xml).await?,
        Action::DeleteUserPolicy => delete::<User>(ask, "UserName").await?,
        Action::DeleteGroupPolicy => delete::<Group>(ask, "GroupName").await?,
        Action::DeleteRolePolicy => delete::<Role>(ask, "RoleName").await?,
        Action::ListUserPolicies => list::<User>(ask, "UserName", xml).await?,
        Action::ListGroupPolicies => list::<Group>(ask, "GroupName", xml).await?,
        Action::ListRolePolicies => list::<Role>(ask, "RoleName", xml).await?,
        _ => return Ok(false),
    }
    Ok(true)
}

async fn put<E: Attached>(ask: &Ask<'_>, of: &str) -> IamResult<()> {
    let name = ask.form.required("PolicyName")?.to_owned();
    check_name("policyName", &name, MAX_NAME)?;
    let policy = IdentityPolicy::parse(ask.form.required("PolicyDocument")?);
    let policy = policy.map_err(|why| IamError::malformed(&why))?;
    let changed = ask
        .model
        .change_entity::<E>(ask.form.required(of)?, move |entity| {
            let inline = &mut entity.held_mut().inline;
            inline.insert(name.clone(), policy.clone());
            let size: usize = inline.values().map(IdentityPolicy::size).sum();
            match size > E::INLINE_CHARS {
                true => Err(archipel_model::Error::LimitExceeded(format!(
                    "Maximum policy size of {} bytes exceeded for {}",
                    E::INLINE_CHARS,
                    entity.name()
                ))),
                false => Ok(()),
            }
        });
    ask.done(changed.await?);
    Ok(())
}

fn missing(policy: &str) -> String {
    format!("The policy with name {policy} cannot be found.")
}

async fn get<E: Attached>(ask: &Ask<'_>, of: &'static str, xml: &mut Writer) -> IamResult<()> {
    let entity = ask.model.find_entity::<E>(ask.form.required(of)?).await?;
    let name = ask.form.required("PolicyName")?;
    let policy = entity.held().inline.get(name);
    let policy = policy.ok_or_else(|| IamError::none(missing(name)))?;
    xml.text(of, entity.name());
    xml.text("PolicyName", name);
    reply::policy(xml, "PolicyDocument", policy.text());
    Ok(())
}

async fn delete<E: Attached>(ask: &Ask<'_>, of: &str) -> IamResult<()> {
    let name = ask.form.required("PolicyName")?.to_owned();
    let changed = ask
        .model
        .change_entity::<E>(ask.form.required(of)?, move |entity| {
            match entity.held_mut().inline.remove(&name) {
                Some(_) => Ok(()),
                None => Err(archipel_model::Error::NoSuchEntity(missing(&name))),
            }
        });
    ask.done(changed.await?);
    Ok(())
}

async fn list<E: Attached>(ask: &Ask<'_>, of: &str, xml: &mut Writer) -> IamResult<()> {
    let entity = ask.model.find_entity::<E>(ask.form.required(of)?).await?;
    let names = entity.held().inline.keys();
    let names = names.map(|name| (name.clone(), name.clone())).collect();
    reply::page(&ask.form, xml, "PolicyNames", names, |xml, name| {
        xml.characters(name);
    })
}
