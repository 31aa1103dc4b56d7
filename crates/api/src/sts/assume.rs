//! AssumeRole and AssumeRoleWithWebIdentity.

use std::sync::Arc;

use archipel_access::principal::{provider_arn, session_arn};
use archipel_access::{Action, Context, Identity, IdentityRequest, Principal, decide_to_assume};
use archipel_model::identity::{
    Attached, Entity, IdentityPolicy, MAX_TOKEN_CHARS, NewSession, PolicyRef, Provider, Reference,
    Role, SessionRole,
};
use archipel_model::{Error, Tags};
use http::StatusCode;

use super::{Providers, jwt, write_credentials};
use crate::iam::{Ask, IamError, IamResult, Resource};
use crate::s3::xml::Writer;

/// The least and the usual seconds of a session; the role says the most.
const LEAST_S: u64 = 900;
const USUAL_S: u64 = 3600;

/// The most seconds of a session that a session of a role asked for.
const CHAINED_S: u64 = 3600;

/// The longest policy of a session, and the most managed ones.
const MAX_POLICY: usize = 2048;
const MAX_POLICIES: usize = 10;

/// Answers AssumeRole.
pub async fn role(ask: &Ask<'_>, xml: &mut Writer) -> IamResult<()> {
    ask.form.only(&[
        "RoleArn",
        "RoleSessionName",
        "DurationSeconds",
        "Policy",
        "PolicyArns",
        "ExternalId",
        "Tags",
    ])?;
    let session = ask.form.required("RoleSessionName")?;
    let role = find(ask, Action::AssumeRole).await?;
    let tags = ask.form.tags()?;
    let mut context = ask.context();
    context.set("sts:RoleSessionName", session);
    if let Some(id) = ask.form.get("ExternalId") {
        context.set("sts:ExternalId", id);
    }
    for (name, value) in &tags {
        context.set(&format!("aws:RequestTag/{name}"), value);
    }
    context.set_all("aws:TagKeys", tags.iter().map(|(name, _)| name.clone()));
    let nobody = || IamError::denied("Nobody asks.");
    let subject = ask.caller.subject().ok_or_else(nobody)?;
    let principal = subject.principal_for(&role.trust);
    let mut actions = vec![Action::AssumeRole];
    if !tags.is_empty() {
        actions.push(Action::TagSession);
    }
    for action in actions {
        decide(principal, action, &role, subject.identity(), &context)?;
    }
    let most = match subject.session().and_then(|session| session.role.as_ref()) {
        Some(_) => CHAINED_S,
        None => u64::from(role.max_session_s),
    };
    let new = NewSession {
        seconds: seconds(ask, most)?,
        parent: subject.as_parent(),
        provider: subject
            .session()
            .and_then(|session| session.provider.clone()),
        ..new(ask, &role, session, tags).await?
    };
    let (key, token) = ask.model.begin_session(new).await?;
    write_credentials(xml, &key, &token);
    write_assumed(ask, xml, &role, session, &token);
    Ok(())
}

/// Answers AssumeRoleWithWebIdentity: the token of an identity provider stands for a signature.
pub async fn web_identity(ask: &Ask<'_>, providers: &Providers, xml: &mut Writer) -> IamResult<()> {
    ask.form.only(&[
        "RoleArn",
        "RoleSessionName",
        "DurationSeconds",
        "Policy",
        "PolicyArns",
        "WebIdentityToken",
    ])?;
    let session = ask.form.required("RoleSessionName")?;
    let token = jwt::Token::parse(ask.form.required("WebIdentityToken")?)?;
    let name = archipel_model::identity::provider_of_url(token.issuer());
    let unknown = || jwt::invalid("No OpenIDConnect provider found in your account for the issuer");
    let name = name.map_err(|_| unknown())?;
    let provider = match ask.model.entity::<Provider>(&name)? {
        Some(provider) => provider,
        // Anybody can send such tokens, so that only the cache is asked.
        None => return Err(unknown()),
    };
    let claims = providers.verify(&token, &provider, ask.now_ms).await?;
    let role = find(ask, Action::AssumeRoleWithWebIdentity).await?;
    let principal = Principal::Federated {
        provider: &provider.name,
    };
    let mut context = Context::of(principal);
    ask.around.describe(&mut context);
    context.set("sts:RoleSessionName", session);
    for (key, value) in [("aud", &claims.audience), ("sub", &claims.subject)] {
        context.set(&format!("{}:{key}", provider.name), value);
    }
    let action = Action::AssumeRoleWithWebIdentity;
    decide(principal, action, &role, &Identity::default(), &context)?;
    let new = NewSession {
        seconds: seconds(ask, u64::from(role.max_session_s))?,
        provider: Some(Reference::to(&*provider)),
        ..new(ask, &role, session, Tags::new()).await?
    };
    let (key, sealed) = ask.model.begin_session(new).await?;
    write_credentials(xml, &key, &sealed);
    xml.text("SubjectFromWebIdentityToken", &claims.subject);
    xml.text("Audience", &claims.audience);
    xml.text("Provider", &provider_arn(&provider.name));
    write_assumed(ask, xml, &role, session, &sealed);
    Ok(())
}

fn decide(
    principal: Principal<'_>,
    action: Action,
    role: &Role,
    identity: &Identity,
    context: &Context,
) -> IamResult<()> {
    let resource = Resource {
        arn: role.arn(),
        tags: role.tags.clone(),
    };
    let mut context = context.clone();
    resource.describe(&mut context);
    let request = IdentityRequest {
        principal,
        action,
        resource: &resource.arn,
        context: &context,
    };
    match decide_to_assume(&request, identity, role.trust.policy()).is_allowed() {
        true => Ok(()),
        false => Err(denied(principal, action, &resource.arn)),
    }
}

fn denied(principal: Principal<'_>, action: Action, arn: &str) -> IamError {
    let action = action.name();
    match principal.arn() {
        Some(who) => IamError::denied(format!(
            "User: {who} is not authorized to perform: {action} on resource: {arn}"
        )),
        None => IamError::denied(format!("Not authorized to perform {action}")),
    }
}

/// Returns the role of the request. Nobody learns that a role does not exist.
async fn find(ask: &Ask<'_>, action: Action) -> IamResult<Arc<Role>> {
    let arn = ask.form.required("RoleArn")?;
    ask.decides_on(arn);
    let none = || denied(ask.caller.principal(), action, arn);
    let prefix = archipel_access::principal::arn("role", "/", "");
    let name = arn
        .strip_prefix(&prefix)
        .and_then(|rest| rest.rsplit('/').next());
    let name = name.filter(|name| !name.is_empty()).ok_or_else(none)?;
    let found = match ask.caller.key() {
        Some(_) => ask.model.find_entity::<Role>(name).await,
        // Anybody can send such requests, and they must cost nothing.
        None => ask
            .model
            .entity::<Role>(name)?
            .ok_or(Error::NoSuchEntity(String::new())),
    };
    match found {
        Ok(role) if role.arn() == arn => Ok(role),
        Ok(_) | Err(Error::NoSuchEntity(_)) => Err(none()),
        Err(error) => Err(error.into()),
    }
}

fn seconds(ask: &Ask<'_>, most: u64) -> IamResult<u64> {
    let usual = USUAL_S.min(most);
    ask.form.number("DurationSeconds", usual, LEAST_S, most)
}

/// Returns a session of a role with its policies. The caller adds the identity that asked for it.
async fn new(ask: &Ask<'_>, role: &Role, session: &str, tags: Tags) -> IamResult<NewSession> {
    let policy = match ask.form.get("Policy") {
        None => None,
        Some(text) if text.chars().count() > MAX_POLICY => {
            return Err(Error::TooLarge.into());
        }
        Some(text) => {
            let policy = IdentityPolicy::parse(text);
            Some(policy.map_err(|why| IamError::malformed(&why))?)
        }
    };
    let mut policies = Vec::new();
    for n in 1.. {
        let Some(arn) = ask.form.get(&format!("PolicyArns.member.{n}.arn")) else {
            break;
        };
        if n > MAX_POLICIES {
            let why = "A session is limited by at most 10 managed policies";
            return Err(IamError::new(
                "PackedPolicyTooLarge",
                StatusCode::BAD_REQUEST,
                why,
            ));
        }
        policies.push(PolicyRef::to(&*ask.model.find_policy(arn).await?));
    }
    Ok(NewSession {
        role: Some(SessionRole {
            role: Reference::to(role),
            session: session.to_owned(),
        }),
        policy,
        policies,
        tags,
        ..NewSession::default()
    })
}

fn write_assumed(ask: &Ask<'_>, xml: &mut Writer, role: &Role, session: &str, token: &str) {
    let arn = session_arn(role.name(), session);
    ask.decides_on(&arn);
    xml.open("AssumedRoleUser");
    xml.text("AssumedRoleId", &format!("{}:{session}", role.id()));
    xml.text("Arn", &arn);
    xml.close();
    xml.value("PackedPolicySize", token.len() * 100 / MAX_TOKEN_CHARS);
}
