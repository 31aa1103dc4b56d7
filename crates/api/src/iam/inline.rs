//! Inline policies of users, groups and roles.

use archipel_access::Action;
use archipel_model::identity::{Attached, Group, Role, User};

use super::error::IamResult;
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

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
    let (name, policy) = (ask.form.required(of)?, ask.form.required("PolicyName")?);
    let document = ask.form.required("PolicyDocument")?;
    ask.done(ask.model.put_inline::<E>(name, policy, document).await?);
    Ok(())
}

async fn get<E: Attached>(ask: &Ask<'_>, of: &'static str, xml: &mut Writer) -> IamResult<()> {
    let entity = ask.model.find_entity::<E>(ask.form.required(of)?).await?;
    let name = ask.form.required("PolicyName")?;
    let policy = ask.model.inline::<E>(entity.name(), name).await?;
    xml.text(of, entity.name());
    xml.text("PolicyName", name);
    reply::policy(xml, "PolicyDocument", policy.text());
    Ok(())
}

async fn delete<E: Attached>(ask: &Ask<'_>, of: &str) -> IamResult<()> {
    let (name, policy) = (ask.form.required(of)?, ask.form.required("PolicyName")?);
    ask.done(ask.model.delete_inline::<E>(name, policy).await?);
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
