//! AWS's STS: temporary credentials. Requests come by the same way as those to IAM.
//!
//! A session is a sealed token that the client sends along with each request. It counts while what
//! it was made from counts: the access key that asked for it, the role, the identity provider.
//!
//! Source: AWS, "AWS Security Token Service API Reference".
//!
//! | module | what it holds |
//! |---|---|
//! | `assume` | AssumeRole, AssumeRoleWithWebIdentity |
//! | `jwt` | tokens of identity providers |
//! | `jwks` | the keys of identity providers, fetched and cached |

mod assume;
mod jwks;
mod jwt;
#[cfg(test)]
mod tests;

use archipel_access::{ACCOUNT, Action};
use archipel_model::AccessKey;
use archipel_model::identity::NewSession;

use crate::iam::{Ask, IamError, IamResult};
use crate::s3::respond;
use crate::s3::xml::Writer;

pub use jwks::Providers;

/// The seconds that GetSessionToken's session lasts: the least, the usual, the most.
const SESSION: [u64; 3] = [900, 43_200, 129_600];

/// Runs an action.
pub async fn run(
    ask: &Ask<'_>,
    action: Action,
    providers: &Providers,
    xml: &mut Writer,
) -> IamResult<()> {
    match action {
        Action::GetCallerIdentity => caller_identity(ask, xml),
        Action::GetSessionToken => session_token(ask, xml).await,
        Action::AssumeRole => assume::role(ask, xml).await,
        Action::AssumeRoleWithWebIdentity => assume::web_identity(ask, providers, xml).await,
        _ => Err(IamError::not_implemented(action.name())),
    }
}

/// Answers GetCallerIdentity, which needs no permission.
fn caller_identity(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    ask.form.only(&[])?;
    let none = || IamError::denied("Nobody asks.");
    let subject = ask.caller.subject().ok_or_else(none)?;
    let principal = subject.principal(None);
    let id = match principal {
        archipel_access::Principal::Role { session, .. } => format!("{}:{session}", subject.id()),
        _ => subject.id().to_owned(),
    };
    xml.text("Arn", &principal.arn().unwrap_or_default());
    xml.text("UserId", &id);
    xml.text("Account", ACCOUNT);
    Ok(())
}

/// Answers GetSessionToken: a session that acts for the user itself.
async fn session_token(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    ask.form.only(&["DurationSeconds"])?;
    let none = || IamError::denied("Cannot call GetSessionToken with session credentials");
    let subject = ask.caller.subject();
    let subject = subject.filter(|subject| subject.session().is_none());
    let subject = subject.ok_or_else(none)?;
    let [least, usual, most] = SESSION;
    let new = NewSession {
        seconds: ask.form.number("DurationSeconds", usual, least, most)?,
        parent: subject.as_parent(),
        ..NewSession::default()
    };
    let (key, token) = ask.model.begin_session(new).await?;
    write_credentials(xml, &key, &token);
    Ok(())
}

fn write_credentials(xml: &mut Writer, key: &AccessKey, token: &str) {
    let expires_ms = key.session.as_ref().map_or(0, |session| session.expires_ms);
    xml.open("Credentials");
    xml.text("AccessKeyId", &key.id);
    xml.text("SecretAccessKey", key.secret.expose());
    xml.text("SessionToken", token);
    let expires = respond::iso_seconds(expires_ms);
    xml.text("Expiration", &expires.replace(".000Z", "Z"));
    xml.close();
}
