//! Roles.

use archipel_access::Action;
use archipel_model::identity::{Attached, Limits, NewRole, Role, RoleChange};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

/// The longest session of a role that was asked for no other, in seconds.
const USUAL_SESSION_S: u32 = 3600;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    let name = ask.form.get("RoleName").unwrap_or_default();
    match action {
        Action::CreateRole => create(ask, xml, name).await?,
        Action::GetRole => {
            let role = ask.model.find_entity::<Role>(name).await?;
            show(xml, &role);
        }
        Action::ListRoles => {
            let roles = ask.wanted::<Role>()?;
            reply::page(&ask.form, xml, "Roles", roles, |xml, role| write(xml, role))?;
        }
        Action::UpdateRole => {
            let change = RoleChange {
                description: ask.form.get("Description").map(str::to_owned),
                // AWS sets the usual hour if the parameter is absent.
                max_session_s: Some(session(ask)?.unwrap_or(USUAL_SESSION_S)),
                ..RoleChange::default()
            };
            ask.done(ask.model.change_role(name, change).await?);
        }
        Action::UpdateRoleDescription => {
            let description = ask.form.get("Description").map(str::to_owned);
            let missing = || IamError::invalid("Description must not be null");
            let change = RoleChange {
                description: Some(description.ok_or_else(missing)?),
                ..RoleChange::default()
            };
            let role = ask.done(ask.model.change_role(name, change).await?);
            show(xml, &role);
        }
        Action::UpdateAssumeRolePolicy => {
            let change = RoleChange {
                trust: Some(ask.form.required("PolicyDocument")?.to_owned()),
                ..RoleChange::default()
            };
            ask.done(ask.model.change_role(name, change).await?);
        }
        Action::DeleteRole => ask.done(ask.model.delete_role(name).await?),
        // There are no machines that could have one.
        Action::ListInstanceProfilesForRole => {
            ask.model.find_entity::<Role>(name).await?;
            reply::nothing(xml, "InstanceProfiles");
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn create(ask: &Ask<'_>, xml: &mut Writer, name: &str) -> IamResult<()> {
    let role = ask.model.create_role(NewRole {
        name: name.to_owned(),
        path: ask.path()?,
        description: ask.form.get("Description").unwrap_or_default().to_owned(),
        max_session_s: session(ask)?,
        trust: ask.form.required("AssumeRolePolicyDocument")?.to_owned(),
        tags: ask.form.tags()?,
    });
    show(xml, &*role.await?);
    Ok(())
}

/// Writes a role with its tags, as answers about one role have it.
fn show(xml: &mut Writer, role: &Role) {
    xml.open("Role");
    write(xml, role);
    reply::tags(xml, &role.tags);
    xml.close();
}

fn session(ask: &Ask<'_>) -> IamResult<Option<u32>> {
    const NAME: &str = "MaxSessionDuration";
    let [least, most] = Limits::SESSION_SECONDS.map(u64::from);
    let seconds = ask.form.number(NAME, least, least, most)?;
    Ok(ask.form.get(NAME).map(|_| seconds as u32))
}

fn write(xml: &mut Writer, role: &Role) {
    xml.text("Path", &role.path);
    xml.text("RoleName", &role.name);
    xml.text("RoleId", &role.id());
    xml.text("Arn", &role.arn());
    reply::time(xml, "CreateDate", role.created_ms);
    reply::policy(xml, "AssumeRolePolicyDocument", role.trust.text());
    if !role.description.is_empty() {
        xml.text("Description", &role.description);
    }
    xml.value("MaxSessionDuration", role.max_session_s);
}
