//! Managed policies that are attached to users, groups and roles.

use archipel_access::Action;
use archipel_model::identity::{Attached, Group, PolicyRef, Role, User};

use super::error::{IamError, IamResult, unless_gone};
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
        let found = ask.model.find_policy(&attached.arn).await;
        if let Some(policy) = unless_gone(found)?
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

/// The kinds of entities, in the order of pages: the list, and the elements of a member.
const KINDS: [[&str; 3]; 3] = [
    ["PolicyGroups", "GroupName", "GroupId"],
    ["PolicyUsers", "UserName", "UserId"],
    ["PolicyRoles", "RoleName", "RoleId"],
];

/// Answers ListEntitiesForPolicy. A page goes on with the next kind where one ends.
async fn entities(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let policy = PolicyRef::to(&*ask.policy().await?);
    let filter = ask.form.get("EntityFilter");
    let filters = [
        "User",
        "Group",
        "Role",
        "LocalManagedPolicy",
        "AWSManagedPolicy",
    ];
    if let Some(filter) = filter.filter(|filter| !filters.contains(filter)) {
        return Err(IamError::invalid(format!(
            "EntityFilter: {filter:?} is unknown"
        )));
    }
    let wanted = |kind: &str| filter.is_none_or(|filter| filter == kind);
    let mut found = Vec::new();
    if wanted("Group") {
        collect::<Group>(ask, &policy, 0, &mut found)?;
    }
    if wanted("User") {
        collect::<User>(ask, &policy, 1, &mut found)?;
    }
    if wanted("Role") {
        collect::<Role>(ask, &policy, 2, &mut found)?;
    }
    let page = reply::page_of(&ask.form, found)?;
    for (kind, [list, name, id]) in KINDS.into_iter().enumerate() {
        xml.open(list);
        for (_, entity) in page.entries.iter().filter(|(_, entity)| entity.0 == kind) {
            xml.open("member");
            xml.text(name, &entity.1);
            xml.text(id, &entity.2);
            xml.close();
        }
        xml.close();
    }
    page.finish(xml);
    Ok(())
}

/// An entity's kind, name and id.
type Found = (usize, String, String);

/// Adds the entities of a kind that a policy is attached to, by kind and name.
fn collect<E: Attached>(
    ask: &Ask<'_>,
    policy: &PolicyRef,
    kind: usize,
    found: &mut Vec<(String, Found)>,
) -> IamResult<()> {
    for entity in ask.model.entities::<E>()? {
        if entity.held().attached.contains(policy) && ask.wants(entity.path()) {
            let name = entity.name().to_owned();
            let place = format!("{kind}:{name}");
            found.push((place, (kind, name, entity.id())));
        }
    }
    Ok(())
}
