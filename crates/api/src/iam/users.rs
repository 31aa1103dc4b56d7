//! Users, and what they do not have here.

use archipel_access::Action;
use archipel_model::identity::{Attached, Group, NewUser, User};

use super::error::{IamError, IamResult, unless_gone};
use super::service::Ask;
use super::{groups, paths, reply};
use crate::s3::xml::Writer;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        Action::CreateUser => create(ask, xml).await?,
        Action::GetUser => get(ask, xml).await?,
        Action::ListUsers => {
            let users = ask.wanted::<User>()?;
            reply::page(&ask.form, xml, "Users", users, |xml, user| write(xml, user))?;
        }
        Action::UpdateUser => {
            let name = ask.user_name()?;
            ask.form.keeps_name(name, "NewUserName")?;
            let tags = |user: &User| user.tags.clone();
            paths::update::<User>(ask, action, name, tags, |user| &mut user.path).await?;
        }
        Action::DeleteUser => {
            let deleted = ask.model.delete_user(ask.user_name()?).await?;
            ask.done(deleted);
        }
        Action::ListGroupsForUser => {
            let user = ask.model.find_entity::<User>(ask.user_name()?).await?;
            let mut groups = Vec::new();
            for meant in &user.groups {
                let found = ask.model.find_entity::<Group>(&meant.name).await;
                if let Some(group) = unless_gone(found)?
                    && group.incarnation == meant.incarnation
                {
                    groups.push((group.name.clone(), group));
                }
            }
            reply::page(&ask.form, xml, "Groups", groups, |xml, group| {
                groups::write(xml, group);
            })?;
        }
        Action::ListMFADevices => none(ask, xml, "MFADevices").await?,
        Action::ListSSHPublicKeys => none(ask, xml, "SSHPublicKeys").await?,
        Action::ListSigningCertificates => none(ask, xml, "Certificates").await?,
        Action::ListServiceSpecificCredentials => {
            none(ask, xml, "ServiceSpecificCredentials").await?;
        }
        // There are none, whatever the filter asks for; it has three values.
        Action::ListVirtualMFADevices => {
            let status = ask.form.get("AssignmentStatus").unwrap_or("Any");
            if !["Any", "Assigned", "Unassigned"].contains(&status) {
                let why = format!("AssignmentStatus: {status:?} is not known");
                return Err(IamError::invalid(why));
            }
            reply::nothing(xml, "VirtualMFADevices");
        }
        // Nobody signs in with a password.
        Action::GetLoginProfile | Action::DeleteLoginProfile => {
            let name = ask.user_name()?;
            return Err(IamError::none(format!(
                "Login Profile for User {name} cannot be found."
            )));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Lists what no user has here.
async fn none(ask: &Ask<'_>, xml: &mut Writer, element: &'static str) -> IamResult<()> {
    ask.model.find_entity::<User>(ask.user_name()?).await?;
    reply::nothing(xml, element);
    Ok(())
}

async fn create(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let user = ask.model.create_user(NewUser {
        name: ask.form.required("UserName")?.to_owned(),
        path: ask.path()?,
        attach: Vec::new(),
        tags: ask.form.tags()?,
    });
    show(xml, &*user.await?);
    Ok(())
}

async fn get(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let user = ask.model.find_entity::<User>(ask.user_name()?).await?;
    show(xml, &user);
    Ok(())
}

/// Writes a user with its tags, as answers about one user have it.
fn show(xml: &mut Writer, user: &User) {
    xml.open("User");
    write(xml, user);
    reply::tags(xml, &user.tags);
    xml.close();
}

pub fn write(xml: &mut Writer, user: &User) {
    xml.text("Path", &user.path);
    xml.text("UserName", &user.name);
    xml.text("UserId", &user.id());
    xml.text("Arn", &user.arn());
    reply::time(xml, "CreateDate", user.created_ms);
}
