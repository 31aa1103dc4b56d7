//! Access keys of users.

use std::sync::Arc;

use archipel_access::Action;
use archipel_model::AccessKey;
use archipel_model::identity::{Reference, User};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

pub async fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        Action::CreateAccessKey => {
            let user = ask.model.find_entity::<User>(ask.user_name()?).await?;
            let key = ask.model.create_user_key(&user.name).await?;
            xml.open("AccessKey");
            write(xml, &user, &key);
            xml.text("SecretAccessKey", key.secret.expose());
            xml.close();
        }
        Action::ListAccessKeys => {
            let user = ask.model.find_entity::<User>(ask.user_name()?).await?;
            let keys = ask.model.keys_of_user(&user)?.into_iter();
            let keys = keys.map(|key| (key.id.clone(), key)).collect();
            reply::page(&ask.form, xml, "AccessKeyMetadata", keys, |xml, key| {
                write(xml, &user, key);
            })?;
        }
        Action::UpdateAccessKey => {
            let key = own(ask).await?;
            let changed = match ask.form.required("Status")? {
                "Active" => ask.model.enable_key(&key.id).await?,
                "Inactive" => ask.model.disable_key(&key.id).await?,
                other => {
                    let why = format!("Status: {other:?} is neither Active nor Inactive");
                    return Err(IamError::invalid(why));
                }
            };
            ask.done(changed);
        }
        Action::DeleteAccessKey => {
            let key = own(ask).await?;
            let unconfirmed = ask.model.delete_access_key(&key.id).await?;
            ask.unconfirmed(unconfirmed);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns the key of the request, if it is one of the user.
async fn own(ask: &Ask<'_>) -> IamResult<Arc<AccessKey>> {
    let user = ask.model.find_entity::<User>(ask.user_name()?).await?;
    let id = ask.form.required("AccessKeyId")?;
    let key = ask.model.find_access_key(id).await?;
    let meant = Reference::to(&*user);
    let key = key.filter(|key| key.user.as_ref() == Some(&meant));
    key.ok_or_else(|| IamError::none(format!("The Access Key with id {id} cannot be found.")))
}

fn write(xml: &mut Writer, user: &User, key: &AccessKey) {
    xml.text("UserName", &user.name);
    xml.text("AccessKeyId", &key.id);
    xml.text("Status", if key.disabled { "Inactive" } else { "Active" });
    reply::time(xml, "CreateDate", key.created_ms);
}
