//! Groups.

use archipel_access::Action;
use archipel_model::Tags;
use archipel_model::identity::{Attached, Group, Reference};

use super::error::IamResult;
use super::service::Ask;
use super::{paths, reply, users};
use crate::s3::xml::Writer;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    let name = ask.form.get("GroupName").unwrap_or_default();
    match action {
        Action::CreateGroup => {
            let group = ask.model.create_group(name, &ask.path()?).await?;
            xml.open("Group");
            write(xml, &group);
            xml.close();
        }
        Action::GetGroup => {
            let group = ask.model.find_entity::<Group>(name).await?;
            xml.open("Group");
            write(xml, &group);
            xml.close();
            let users = ask.model.members()?.remove(&Reference::to(&*group));
            let users = users.into_iter().flatten();
            let users = users.map(|user| (user.name.clone(), user)).collect();
            reply::page(&ask.form, xml, "Users", users, |xml, user| {
                users::write(xml, user);
            })?;
        }
        Action::ListGroups => {
            let groups = ask.wanted::<Group>()?;
            reply::page(&ask.form, xml, "Groups", groups, |xml, group| {
                write(xml, group);
            })?;
        }
        Action::UpdateGroup => {
            ask.form.keeps_name(name, "NewGroupName")?;
            let tags = |_: &Group| Tags::new();
            paths::update::<Group>(ask, action, name, tags, |group| &mut group.path).await?;
        }
        Action::DeleteGroup => ask.done(ask.model.delete_group(name).await?),
        Action::AddUserToGroup => {
            let user = ask.form.required("UserName")?;
            ask.done(ask.model.join_group(user, name).await?);
        }
        Action::RemoveUserFromGroup => {
            let user = ask.form.required("UserName")?;
            ask.done(ask.model.leave_group(user, name).await?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

pub fn write(xml: &mut Writer, group: &Group) {
    xml.text("Path", &group.path);
    xml.text("GroupName", &group.name);
    xml.text("GroupId", &group.id());
    xml.text("Arn", &group.arn());
    reply::time(xml, "CreateDate", group.created_ms);
}
