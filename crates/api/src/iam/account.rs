//! The account: how much it holds.

use archipel_access::Action;
use archipel_access::principal::ACCOUNT;
use archipel_model::identity::{Entity, Group, ManagedPolicy, Provider, Role, User};

use super::error::{IamError, IamResult};
use super::reply;
use super::service::Ask;
use crate::s3::xml::Writer;

pub fn run(ask: &Ask<'_>, action: Action, xml: &mut Writer) -> IamResult<bool> {
    match action {
        // An account has no alias here: nobody signs in with one.
        Action::ListAccountAliases => reply::nothing(xml, "AccountAliases"),
        Action::ListInstanceProfiles => reply::nothing(xml, "InstanceProfiles"),
        Action::ListServerCertificates => reply::nothing(xml, "ServerCertificateMetadataList"),
        // This list has no pages.
        Action::ListSAMLProviders => {
            xml.open("SAMLProviderList");
            xml.close();
        }
        // Nobody signs in with a password.
        Action::GetAccountPasswordPolicy => {
            return Err(IamError::none(format!(
                "The Password Policy with domain name {ACCOUNT} cannot be found."
            )));
        }
        Action::GetAccountSummary => summary(ask, xml)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn summary(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    let counts = [
        ("Users", count::<User>(ask)?),
        ("Groups", count::<Group>(ask)?),
        ("Roles", count::<Role>(ask)?),
        ("Policies", count::<ManagedPolicy>(ask)?),
        ("Providers", count::<Provider>(ask)?),
        // There are none of these here.
        ("AccountMFAEnabled", 0),
        ("InstanceProfiles", 0),
        ("MFADevices", 0),
        ("MFADevicesInUse", 0),
        ("ServerCertificates", 0),
    ];
    xml.open("SummaryMap");
    for (name, count) in counts {
        xml.open("entry");
        xml.text("key", name);
        xml.value("value", count);
        xml.close();
    }
    xml.close();
    Ok(())
}

fn count<E: Entity>(ask: &Ask<'_>) -> IamResult<usize> {
    Ok(ask.model.entities::<E>()?.len())
}
