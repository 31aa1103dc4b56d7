//! Managed policies that are attached to users, groups and roles.

use archipel_access::Action;
use archipel_model::identity::{Attached, Group, PolicyRef, Role, User};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        Action::AttachUserPolicy => attach::<User>(ask, "UserName").await?,
        Action::AttachGroupPolicy => attach::<Group>(ask, "GroupName").await?,
        Action::AttachRolePolicy => attach::<Role>(ask, "RoleName").await?,
        Action::DetachUserPolicy => detach::<User>(ask, "UserName").await?,
        Action::DetachGroupPolicy => detach::<Group>(ask, "GroupName").await?,
        Action::DetachRolePolicy => detach::<Role>(ask, "RoleName").await?,
        Action::ListAttachedUserPolicies => list::<User>(ask, "UserName", xml).await?,
        Action::ListAttachedGroupPolicies => list::<Group>(ask, "GroupName", xml).await?,
        Action::ListAttachedRolePolicies => list::<Role>(ask, "RoleName", xml).await?,
        Action::ListEntitiesForPolicy => entities(ask, xml).await?,
        _ => return Ok(false),
    }
    Ok(true)
}

async fn attach<E: Attached>(ask: &Ask<'_>, of: &str) -> IamResult<()> {
    let (name, arn) = (ask.form.required(of)?, ask.form.required("PolicyArn")?);
    ask.done(ask.model.attach::<E>(name, arn).await?);
    Ok(())
}

async fn detach<E: Attached>(ask: &Ask<'_>, of: &str) -> IamResult<()> {
    let (name, arn) = (ask.form.required(of)?, ask.form.required("PolicyArn")?);
    ask.done(ask.model.detach::<E>(name, arn).await?);
    Ok(())
}

async fn list<E: Attached>(ask: &Ask<'_>, of: &str, xml: &mut Writer) -> IamResult<()> {
    let entity = ask.model.find_entity::<E>(ask.form.required(of)?).await?;
    let mut policies = Vec::new();
    for attached in &entity.held().attached {
        // A policy that is gone is attached to nothing.
        if let Ok(policy) = ask.model.find_policy(&attached.arn).await
            && policy.incarnation == attached.incarnation
            && ask.wants(&policy.path)
        {
            policies.push((policy.name.clone(), attached.arn.clone()));
        }
    }
    let policies = policies
        .into_iter()
        .map(|(name, arn)| (name.clone(), (name, arn)));
    let policies = policies.collect();
    reply::page(
        &ask.form,
        xml,
        "AttachedPolicies",
        policies,
        |xml, (name, arn)| {
            xml.text("PolicyName", name);
            xml.text("PolicyArn", arn);
        },
    )
}

/// Answers ListEntitiesForPolicy. One page holds all.
async fn entities(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let policy = ask
        .model
        .find_policy(ask.form.required("PolicyArn")?)
        .await?;
    let policy = PolicyRef::to(&policy);
    let filter = ask.form.get("EntityFilter");
    if let Some(filter) = filter
        && ![
            "User",
            "Group",
            "Role",
            "LocalManagedPolicy",
            "AWSManagedPolicy",
        ]
        .contains(&filter)
    {
        return Err(IamError::invalid(format!(
            "EntityFilter: {filter:?} is unknown"
        )));
    }
    let wanted = |kind: &str| filter.is_none_or(|filter| filter == kind);
    write::<Group>(
        ask,
        xml,
        &policy,
        wanted("Group"),
        ["PolicyGroups", "GroupName", "GroupId"],
    )?;
    write::<User>(
        ask,
        xml,
        &policy,
        wanted("User"),
        ["PolicyUsers", "UserName", "UserId"],
    )?;
    write::<Role>(
        ask,
        xml,
        &policy,
        wanted("Role"),
        ["PolicyRoles", "RoleName", "RoleId"],
    )?;
    xml.value("IsTruncated", false);
    Ok(())
}

fn write<E: Attached>(
    ask: &Ask<'_>,
    xml: &mut Writer,
    policy: &PolicyRef,
    wanted: bool,
    [list, name, id]: [&'static str; 3],
) -> IamResult<()> {
    xml.open(list);
    for entity in ask.model.entities::<E>()? {
        if wanted && entity.held().attached.contains(policy) && ask.wants(entity.path()) {
            xml.open("member");
            xml.text(name, entity.name());
            xml.text(id, &entity.id());
            xml.close();
        }
    }
    xml.close();
    Ok(())
}
