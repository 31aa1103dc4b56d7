//! New paths of users and groups.

use archipel_access::Action;
use archipel_model::Tags;
use archipel_model::identity::{Attached, check_path};

use super::error::IamResult;
use super::resource::Resource;
use super::service::Ask;

/// Gives an entity the path that the request names, if it names one.
pub async fn update<E: Attached>(
    ask: &Ask<'_>,
    action: Action,
    name: &str,
    tags: fn(&E) -> Tags,
    path: fn(&mut E) -> &mut String,
) -> IamResult<()> {
    let new = ask.form.get("NewPath").map(str::to_owned);
    if let Some(new) = &new {
        check_path(new)?;
        let mut moved = E::clone(&*ask.model.find_entity::<E>(name).await?);
        path(&mut moved).clone_from(new);
        // Policies may know the entity by its path.
        let (arn, tags) = (moved.arn(), tags(&moved));
        ask.permit(action, &Resource { arn, tags })?;
    }
    let changed = ask.model.change_entity::<E>(name, move |entity| {
        if let Some(new) = &new {
            path(entity).clone_from(new);
        }
        Ok(())
    });
    ask.done(changed.await?);
    Ok(())
}
