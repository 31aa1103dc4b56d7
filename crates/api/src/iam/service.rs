//! The way from a request to an answer: form, signature, decision, handler.

use std::sync::Arc;

use archipel_access::{Action, Context, Decision, IdentityRequest, decide_for_identity};
use archipel_base::NodeId;
use archipel_model::Model;
use archipel_model::identity::{
    Attached, Changed, Entity, Kind, ManagedPolicy, Provider, ROOT_PATH, managed_policy_arn,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;

use super::actions::{ACTIONS, tags_with};
use super::error::{IamError, IamResult};
use super::form::Form;
use super::resource::Resource;
use super::{
    account, attached, groups, inline, keys, policies, providers, reply, roles, tags, users,
};
use crate::s3::auth::{Caller, Surroundings, conditions};
use crate::s3::body::RequestBody;
use crate::s3::endpoint::{Learned, RequestHead};
use crate::s3::respond::Answer;
use crate::s3::signed;
use crate::s3::sigv4::{Lookup, SignedParts, Verifier};
use crate::s3::target::Target;
use crate::s3::uri::begins_with;
use crate::s3::xml::Writer;
use crate::serve::Rates;
use crate::sts;

/// The largest body: a policy of 10 KiB, every byte of it encoded, and room for the rest.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The region of both APIs, for conditions on it: AWS serves IAM there.
const REGION: &str = "us-east-1";

/// The versions of the two APIs, and their namespaces.
const IAM: (&str, &str) = ("2010-05-08", "https://iam.amazonaws.com/doc/2010-05-08/");
const STS: (&str, &str) = ("2011-06-15", "https://sts.amazonaws.com/doc/2011-06-15/");

/// The header that names the nodes which did not confirm a change.
const UNCONFIRMED: HeaderName = HeaderName::from_static("x-archipel-unconfirmed");

/// Returns true for a request to IAM or STS: a form that is posted to `/`, or an action in the
/// query.
pub fn is_asked(parts: &Parts, target: &Target) -> bool {
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_form = kind.starts_with("application/x-www-form-urlencoded");
    let is_root = !target.control && target.bucket.is_none() && target.key.is_none();
    let of_query = || target.query.has("Action") && target.query.has("Version");
    match parts.method {
        Method::POST => is_root && (is_form || of_query()),
        Method::GET => is_root && of_query(),
        _ => false,
    }
}

/// Returns the form of a request: its body or, without one, its query. The signature is no part of
/// it.
fn form_of(parts: &Parts, body: &[u8]) -> IamResult<Form> {
    let body = std::str::from_utf8(body);
    let body = body.map_err(|_| IamError::invalid("the form is not UTF-8"))?;
    if !body.is_empty() {
        return Form::parse(body);
    }
    let query = parts.uri.query().unwrap_or_default().split('&');
    let query: Vec<&str> = query.filter(|pair| !begins_with(pair, "x-amz-")).collect();
    Form::parse(&query.join("&"))
}

/// The IAM API and the STS API.
pub struct Apis {
    iam: Verifier,
    sts: Verifier,
    /// Fetches the keys of identity providers.
    pub providers: sts::Providers,
}

impl Apis {
    /// Makes the APIs of a region.
    pub fn new(region: &str) -> Apis {
        Apis {
            iam: Verifier::global(region, "iam"),
            sts: Verifier::global(region, "sts"),
            providers: sts::Providers::default(),
        }
    }
}

/// A request as it came.
pub struct Asked<'a> {
    pub model: &'a Model,
    pub apis: &'a Apis,
    pub rates: &'a Rates,
    pub head: &'a RequestHead,
    pub target: &'a Target,
    pub now_ms: u64,
}

/// A request whose caller is known.
pub struct Ask<'a> {
    pub model: &'a Model,
    pub caller: Caller,
    pub form: Form,
    pub now_ms: u64,
    /// The facts of the request beside its caller.
    pub around: Surroundings<'a>,
    unconfirmed: Mutex<Vec<NodeId>>,
    /// The ARN of what was decided about last, for the audit log.
    decided_on: Mutex<Option<String>>,
}

/// Answers a request. Never fails: an error is an answer.
pub async fn answer(asked: &Asked<'_>, body: &mut RequestBody, learned: &mut Learned) -> Answer {
    let mut namespace = IAM.1;
    match run(asked, body, learned, &mut namespace).await {
        Ok(answer) => answer,
        Err(error) => {
            let (request_id, operation) = (&asked.head.id, learned.operation);
            if let Some(cause) = &error.cause {
                tracing::error!(request_id, operation, cause, "a request failed");
            }
            reply::failure(&error, namespace, request_id)
        }
    }
}

async fn run(
    asked: &Asked<'_>,
    body: &mut RequestBody,
    learned: &mut Learned,
    namespace: &mut &'static str,
) -> IamResult<Answer> {
    let body = body.collect(MAX_BODY_BYTES).await?;
    let form = form_of(&asked.head.parts, &body)?;
    let version = form.get("Version").unwrap_or_default();
    let of_sts = version == STS.0;
    if of_sts {
        *namespace = STS.1;
    } else if version != IAM.0 {
        let why = format!("The version {version:?} is neither {} nor {}", IAM.0, STS.0);
        let status = http::StatusCode::BAD_REQUEST;
        return Err(IamError::new("InvalidAction", status, why));
    }
    let name = form.required("Action")?;
    let service = if of_sts { "sts" } else { "iam" };
    let action = Action::all()
        .find(|action| action.name().split_once(':') == Some((service, name)))
        .filter(|action| *action != Action::TagSession)
        .ok_or_else(|| IamError::not_implemented(&format!("The action {name}")))?;
    let name = action.name().split_once(':').map_or("", |(_, name)| name);
    learned.operation = name;
    let caller = authenticate(asked, of_sts, &body).await?;
    learned.name(&caller);
    if caller.key().is_none() && action != Action::AssumeRoleWithWebIdentity {
        let why = "Request is missing Authentication Token";
        let status = http::StatusCode::FORBIDDEN;
        return Err(IamError::new("MissingAuthenticationToken", status, why));
    }
    let ask = Ask {
        model: asked.model,
        around: Surroundings::of(asked.head, asked.now_ms, REGION),
        caller,
        form,
        now_ms: asked.now_ms,
        unconfirmed: Mutex::default(),
        decided_on: Mutex::default(),
    };
    let mut xml = Writer::fragment();
    let done = match of_sts {
        true => sts::run(&ask, action, &asked.apis.providers, &mut xml).await,
        false => ask.run(action, &mut xml).await,
    };
    learned.resource = ask.decided_on.into_inner();
    done?;
    let mut answer = reply::success(name, namespace, xml, &asked.head.id);
    let unconfirmed = ask.unconfirmed.into_inner();
    if !unconfirmed.is_empty() {
        let names: Vec<_> = unconfirmed.iter().map(ToString::to_string).collect();
        if let Ok(value) = HeaderValue::from_str(&names.join(", ")) {
            answer.headers_mut().insert(UNCONFIRMED, value);
        }
    }
    Ok(answer)
}

/// Checks the signature. A request without one is anonymous.
async fn authenticate(asked: &Asked<'_>, of_sts: bool, body: &[u8]) -> IamResult<Caller> {
    let verifier = match of_sts {
        true => &asked.apis.sts,
        false => &asked.apis.iam,
    };
    let verify = |signed: &SignedParts<'_>, lookup: Lookup<'_>| {
        verifier.verify_with_body(signed, body, asked.now_ms, lookup)
    };
    let parts = &asked.head.parts;
    match signed::verify(asked.model, asked.rates, parts, asked.target, verify).await? {
        Some(signer) => {
            let (key, credential) = (&signer.key, signer.credential);
            Ok(Caller::verified(asked.model, asked.rates, key, credential).await?)
        }
        None => Ok(Caller::anonymous()),
    }
}

impl Ask<'_> {
    /// Returns the condition keys of the request.
    pub fn context(&self) -> Context {
        let mut context = conditions::of_caller(&self.caller);
        self.around.describe(&mut context);
        context
    }

    /// Decides, and runs the action.
    async fn run(&self, action: Action, xml: &mut Writer) -> IamResult<()> {
        let known = ACTIONS.iter().find(|known| known.action == action);
        let known = known.ok_or_else(|| IamError::not_implemented(action.name()))?;
        self.form.only(known.parameters)?;
        let subject = self.caller.subject();
        let of_user = subject.filter(|subject| !matches!(subject.kind(), Kind::Role { .. }));
        if of_user.is_some_and(|subject| subject.session().is_some()) {
            // Else credentials that last for an hour could make some that last for ever.
            let why = "Sessions of GetSessionToken without a second factor cannot call IAM";
            return Err(IamError::denied(why));
        }
        let resource = self.resource(known.on).await?;
        self.permit(action, &resource)?;
        if let Some(tagging) = tags_with(action).filter(|_| self.form.gives_tags()) {
            self.permit(tagging, &resource)?;
        }
        if users::run(self, action, xml).await?
            || keys::run(self, action, xml).await?
            || groups::run(self, action, xml).await?
            || roles::run(self, action, xml).await?
            || policies::run(self, action, xml).await?
            || providers::run(self, action, xml).await?
            || inline::run(self, action, xml).await?
            || attached::run(self, action, xml).await?
            || tags::run(self, action, xml).await?
            || account::run(self, action, xml)?
        {
            return Ok(());
        }
        Err(IamError::not_implemented(action.name()))
    }

    /// Takes down what the request is about.
    pub fn decides_on(&self, arn: &str) {
        *self.decided_on.lock() = Some(arn.to_owned());
    }

    /// Decides about an action on a resource.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn permit(&self, action: Action, resource: &Resource) -> IamResult<()> {
        self.decides_on(&resource.arn);
        let mut context = self.context();
        resource.describe(&mut context);
        if let Some(arn) = self.form.get("PolicyArn") {
            context.set("iam:PolicyARN", arn);
        }
        let tags = self.form.tags()?;
        let names: Vec<String> = match tags.is_empty() {
            true => self
                .form
                .members("TagKeys")
                .into_iter()
                .map(str::to_owned)
                .collect(),
            false => tags.iter().map(|(name, _)| name.clone()).collect(),
        };
        if !names.is_empty() {
            context.set_all("aws:TagKeys", names);
        }
        for (name, value) in tags {
            context.set(&format!("aws:RequestTag/{name}"), value);
        }
        let principal = self.caller.principal();
        let request = IdentityRequest {
            principal,
            action,
            resource: &resource.arn,
            context: &context,
        };
        let subject = self.caller.subject();
        let identity = subject.map(|subject| subject.identity().clone());
        match decide_for_identity(&request, &identity.unwrap_or_default()) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) => {
                let who = principal.arn().unwrap_or_else(|| "anonymous".to_owned());
                let name = action.name();
                Err(IamError::denied(format!(
                    "User: {who} is not authorized to perform: {name} on resource: {}: {reason}",
                    resource.arn
                )))
            }
        }
    }

    /// Returns the name of the user that the request is about: `UserName`, or the caller.
    ///
    /// # Errors
    /// `ValidationError` if the caller is no user.
    pub fn user_name(&self) -> IamResult<&str> {
        if let Some(name) = self.form.get("UserName") {
            return Ok(name);
        }
        match self.caller.subject().map(|subject| subject.kind()) {
            Some(Kind::User(user)) => Ok(&user.name),
            _ => Err(IamError::invalid(
                "Must specify userName when calling with non-User credentials",
            )),
        }
    }

    /// Returns the path of a new entity.
    ///
    /// # Errors
    /// `ValidationError`.
    pub fn path(&self) -> IamResult<String> {
        let path = self.form.get("Path").unwrap_or(ROOT_PATH);
        archipel_model::identity::check_path(path)?;
        Ok(path.to_owned())
    }

    /// Returns true if a path begins as the request asks for.
    pub fn wants(&self, path: &str) -> bool {
        let prefix = self.form.get("PathPrefix");
        prefix.is_none_or(|prefix| path.starts_with(prefix))
    }

    /// Notes which nodes did not confirm a change, and returns the value after it.
    pub fn done<T>(&self, changed: Changed<T>) -> T {
        self.unconfirmed(changed.unconfirmed);
        changed.value
    }

    /// Notes which nodes did not confirm a change.
    pub fn unconfirmed(&self, nodes: Vec<NodeId>) {
        self.unconfirmed.lock().extend(nodes);
    }

    /// Returns the managed policy that the request names.
    ///
    /// # Errors
    /// `NoSuchEntity`.
    pub async fn policy(&self) -> IamResult<Arc<ManagedPolicy>> {
        let arn = self.form.required("PolicyArn")?;
        Ok(self.model.find_policy(arn).await?)
    }

    /// Returns the entities of a kind whose paths begin as the request asks for, by name.
    ///
    /// # Errors
    /// Those of the model.
    pub fn wanted<E: Attached>(&self) -> IamResult<Vec<(String, Arc<E>)>> {
        let all = self.model.entities::<E>()?.into_iter();
        let wanted = all.filter(|entity| self.wants(entity.path()));
        let named = wanted.map(|entity| (entity.name().to_owned(), entity));
        Ok(named.collect())
    }

    /// Returns the name of the managed policy of this account that the request names.
    ///
    /// # Errors
    /// `NoSuchEntity`; `AccessDenied` for one that every cluster has.
    pub async fn own_policy(&self) -> IamResult<&str> {
        let arn = self.form.required("PolicyArn")?;
        if arn.starts_with("arn:aws:iam::aws:policy/") {
            let why = format!("{} that AWS names cannot be changed", ManagedPolicy::WHAT);
            return Err(IamError::denied(why));
        }
        let none = || IamError::none(format!("Policy {arn} was not found."));
        let name = managed_policy_arn(arn).ok_or_else(none)?;
        // The decision was about the policy of exactly this ARN.
        self.model.find_policy(arn).await?;
        Ok(name)
    }

    /// Returns the name of the identity provider that the request names.
    ///
    /// # Errors
    /// `NoSuchEntity`.
    pub fn provider(&self) -> IamResult<&str> {
        let arn = self.form.required("OpenIDConnectProviderArn")?;
        let name = arn.strip_prefix(&archipel_access::principal::provider_arn(""));
        name.ok_or_else(|| IamError::none(format!("{} {arn} was not found.", Provider::WHAT)))
    }
}
