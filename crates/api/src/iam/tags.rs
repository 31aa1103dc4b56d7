//! Tags of users, roles, managed policies and identity providers.

use archipel_access::Action;
use archipel_model::Tags;
use archipel_model::identity::{Entity, ManagedPolicy, Provider, Role, User};

use super::error::{IamError, IamResult};
use super::form::check_tags;
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    let user = || ask.form.required("UserName");
    let role = || ask.form.required("RoleName");
    match action {
        Action::TagUser => add::<User>(ask, user()?, |user| &mut user.tags).await?,
        Action::TagRole => add::<Role>(ask, role()?, |role| &mut role.tags).await?,
        Action::TagPolicy => {
            add::<ManagedPolicy>(ask, ask.own_policy().await?, |policy| &mut policy.tags).await?;
        }
        Action::TagOpenIDConnectProvider => {
            add::<Provider>(ask, ask.provider()?, |provider| &mut provider.tags).await?;
        }
        Action::UntagUser => remove::<User>(ask, user()?, |user| &mut user.tags).await?,
        Action::UntagRole => remove::<Role>(ask, role()?, |role| &mut role.tags).await?,
        Action::UntagPolicy => {
            remove::<ManagedPolicy>(ask, ask.own_policy().await?, |policy| &mut policy.tags)
                .await?;
        }
        Action::UntagOpenIDConnectProvider => {
            remove::<Provider>(ask, ask.provider()?, |provider| &mut provider.tags).await?;
        }
        Action::ListUserTags => {
            let user = ask.model.find_entity::<User>(user()?).await?;
            list(ask, xml, &user.tags)?;
        }
        Action::ListRoleTags => {
            let role = ask.model.find_entity::<Role>(role()?).await?;
            list(ask, xml, &role.tags)?;
        }
        Action::ListOpenIDConnectProviderTags => {
            let provider = ask.model.find_entity::<Provider>(ask.provider()?).await?;
            list(ask, xml, &provider.tags)?;
        }
        Action::ListPolicyTags => {
            list(ask, xml, &ask.policy().await?.tags)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn add<E: Entity>(ask: &Ask<'_>, name: &str, tags: fn(&mut E) -> &mut Tags) -> IamResult<()> {
    let added = ask.form.tags()?;
    if added.is_empty() {
        ask.form.required("Tags")?;
    }
    let changed = ask.model.change_entity::<E>(name, move |entity| {
        let tags = tags(entity);
        for (name, value) in &added {
            tags.retain(|(other, _)| other.to_lowercase() != name.to_lowercase());
            tags.push((name.clone(), value.clone()));
        }
        tags.sort();
        let many = |error: IamError| archipel_model::Error::LimitExceeded(error.message);
        check_tags(tags).map_err(many)
    });
    ask.done(changed.await?);
    Ok(())
}

async fn remove<E: Entity>(
    ask: &Ask<'_>,
    name: &str,
    tags: fn(&mut E) -> &mut Tags,
) -> IamResult<()> {
    let removed = ask.form.some_members("TagKeys")?.into_iter();
    let removed: Vec<String> = removed.map(str::to_lowercase).collect();
    let changed = ask.model.change_entity::<E>(name, move |entity| {
        tags(entity).retain(|(name, _)| !removed.contains(&name.to_lowercase()));
        Ok(())
    });
    ask.done(changed.await?);
    Ok(())
}

fn list(ask: &Ask<'_>, xml: &mut Writer, tags: &Tags) -> IamResult<()> {
    let tags = tags.iter().map(|tag| (tag.0.clone(), tag.clone()));
    reply::page(
        &ask.form,
        xml,
        "Tags",
        tags.collect(),
        |xml, (name, value)| {
            xml.text("Key", name);
            xml.text("Value", value);
        },
    )
}
