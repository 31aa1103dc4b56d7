//! Roles.

use archipel_access::{Action, Policy};
use archipel_model::identity::{Attached, Held, Role, TrustPolicy, check_name};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

/// The longest name of a role.
const MAX_NAME: usize = 64;

/// The longest description.
const MAX_DESCRIPTION: usize = 1000;

/// The longest trust policy, without white space.
const MAX_TRUST: usize = 2048;

/// The longest session of a role in seconds: the least, the usual and the most that can be set.
const SESSION: [u64; 3] = [3600, 3600, 43_200];

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    let name = ask.form.get("RoleName").unwrap_or_default();
    match action {
        Action::CreateRole => create(ask, xml, name).await?,
        Action::GetRole => {
            let role = ask.model.find_entity::<Role>(name).await?;
            xml.open("Role");
            write(xml, &role);
            reply::tags(xml, &role.tags);
            xml.close();
        }
        Action::ListRoles => {
            let roles = ask.model.entities::<Role>()?.into_iter();
            let roles = roles.filter(|role| ask.wants(&role.path));
            let roles = roles.map(|role| (role.name.clone(), role)).collect();
            reply::page(&ask.form, xml, "Roles", roles, |xml, role| write(xml, role))?;
        }
        Action::UpdateRole => {
            let description = description(ask)?;
            let [least, _, most] = SESSION;
            let seconds = ask.form.get("MaxSessionDuration").is_some();
            let longest = ask.form.number("MaxSessionDuration", least, least, most)?;
            let changed = ask.model.change_entity::<Role>(name, move |role| {
                if let Some(description) = &description {
                    role.description.clone_from(description);
                }
                if seconds {
                    role.max_session_s = longest as u32;
                }
                Ok(())
            });
            ask.done(changed.await?);
        }
        Action::UpdateAssumeRolePolicy => {
            let trust = trust(ask, "PolicyDocument").await?;
            let changed = ask.model.change_entity::<Role>(name, move |role| {
                role.trust = trust.clone();
                Ok(())
            });
            ask.done(changed.await?);
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
    check_name("roleName", name, MAX_NAME)?;
    let [least, usual, most] = SESSION;
    let longest = ask.form.number("MaxSessionDuration", usual, least, most)?;
    let role = Role {
        name: name.to_owned(),
        path: ask.path()?,
        created_ms: ask.now_ms,
        incarnation: ask.model.new_incarnation(),
        description: description(ask)?.unwrap_or_default(),
        max_session_s: longest as u32,
        trust: trust(ask, "AssumeRolePolicyDocument").await?,
        not_before_ms: None,
        held: Held::default(),
        tags: ask.form.tags()?,
    };
    let role = ask.model.create_entity(role).await?;
    xml.open("Role");
    write(xml, &role);
    reply::tags(xml, &role.tags);
    xml.close();
    Ok(())
}

fn description(ask: &Ask<'_>) -> IamResult<Option<String>> {
    let text = ask.form.get("Description");
    match text.is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
        true => Err(IamError::invalid("The description is too long")),
        false => Ok(text.map(str::to_owned)),
    }
}

/// Reads a trust policy, and finds those whom it names.
async fn trust(ask: &Ask<'_>, parameter: &str) -> IamResult<TrustPolicy> {
    let text = ask.form.required(parameter)?;
    if text.chars().filter(|c| !c.is_whitespace()).count() > MAX_TRUST {
        let why = format!("Cannot exceed quota for ACLSizePerRole: {MAX_TRUST}");
        return Err(archipel_model::Error::LimitExceeded(why).into());
    }
    let policy = Policy::parse_trust(text).map_err(|why| IamError::malformed(&why))?;
    match ask.model.incarnations_of(&policy).await? {
        Ok(named) => Ok(TrustPolicy::new(text.to_owned(), policy, named)),
        Err(name) => {
            let why = format!("Invalid principal in policy: there is no {name:?}");
            let status = http::StatusCode::BAD_REQUEST;
            Err(IamError::new("MalformedPolicyDocument", status, why))
        }
    }
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
