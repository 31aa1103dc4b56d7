//! Policies: managed ones, inline ones of users, groups and roles, and those of buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_model::identity::{
    Attached, Attachments, BUILT_IN, Group, Holder, IdentityPolicy, ManagedPolicy, NewPolicy,
    PolicyRef, ROOT_PATH, Role, User,
};
use archipel_model::{BucketPolicy, Error, Model};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, NoContent, Query, Read, Refusal};
use super::buckets::find;
use super::deletion::{Deletion, DryRun, Plan};
use super::page::page;
use super::precondition::{Precondition, Tag, Tagged};
use super::types::{CreatePolicy, HolderKind, Page, PolicyDocument, PolicyInfo};
use crate::s3::read_bucket_policy;

/// The users, groups and roles that each managed policy is attached to.
type Holders = BTreeMap<PolicyRef, Vec<Holder>>;

/// The filters of the list of managed policies.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListPolicies {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only policies after this ARN: the `next` of the former page.
    after: Option<String>,
    /// Only policies whose name begins so.
    prefix: Option<String>,
    /// True for those that every cluster has only, false for the others only.
    built_in: Option<bool>,
}

/// Lists managed policies, by ARN: those that were created, and those that every cluster has.
#[utoipa::path(
    get, path = "/v1/policies", tag = "users", operation_id = "list_policies",
    params(ListPolicies),
    responses((status = 200, description = "Policies", body = Page<PolicyInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListPolicies>,
) -> Result<Json<Page<PolicyInfo>>, Refusal> {
    let created = admin.model.entities::<ManagedPolicy>()?.into_iter();
    let created = created.map(|policy| (policy.arn(), policy));
    let built_in = BUILT_IN.iter();
    let built_in = built_in.map(|policy| (policy.arn(), Arc::new(policy.clone())));
    let mut all: Vec<_> = created.chain(built_in).collect();
    let prefix = query.prefix.as_deref().unwrap_or_default();
    all.retain(|(_, policy)| {
        policy.name.starts_with(prefix)
            && query
                .built_in
                .is_none_or(|asked| policy.is_built_in() == asked)
    });
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let part = page(all, |(arn, _)| arn, query.limit, query.after.as_deref())?;
    let holders = admin.model.holders()?;
    part.try_map(|(_, policy)| describe(&policy, Some(&holders)))
        .map(Json)
}

/// Creates a managed policy.
#[utoipa::path(
    post, path = "/v1/policies", tag = "users", operation_id = "create_policy",
    request_body = CreatePolicy,
    responses((status = 201, description = "The policy", body = PolicyInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreatePolicy>,
) -> Result<Created<PolicyInfo>, Refusal> {
    let policy = admin.model.create_policy(NewPolicy {
        name: ask.name,
        path: ask.path.unwrap_or_else(|| ROOT_PATH.to_owned()),
        description: ask.description,
        document: ask.document,
        tags: Vec::new(),
    });
    let policy = policy.await?;
    Ok(Created(describe(&policy, Some(&Holders::new()))?))
}

/// Shows a managed policy: its document, and what it is attached to.
#[utoipa::path(
    get, path = "/v1/policies/{name}", tag = "users", operation_id = "get_policy",
    params(("name" = String, Path, description = "The policy: its name or ARN")),
    responses((status = 200, description = "The policy", body = PolicyInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Tagged<PolicyInfo>, Refusal> {
    let policy = admin.model.named_policy(&name).await?;
    let info = describe(&policy, Some(&admin.model.holders()?))?;
    Ok(Tagged(info, Some(tag(&policy))))
}

/// Replaces the document of a managed policy. It becomes a new version, which counts; of more than
/// five versions, the oldest goes.
#[utoipa::path(
    put, path = "/v1/policies/{name}", tag = "users", operation_id = "replace_policy",
    params(("name" = String, Path, description = "The policy: its name or ARN"), Precondition),
    request_body = PolicyDocument,
    responses((status = 200, description = "The policy", body = PolicyInfo)),
)]
pub(super) async fn replace(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
    Read(ask): Read<PolicyDocument>,
) -> Result<Tagged<PolicyInfo>, Refusal> {
    let (model, text) = (&admin.model, ask.document.as_str());
    let name = changeable(model, &name).await?;
    let test = |now: &ManagedPolicy| condition.admits(Some(tag(now)));
    let changed = model.replace_policy_if(&name, text, test).await;
    let policy = changed.map_err(|error| condition.refusal(error))?.value;
    // The policy is replaced by now, and shown also if nothing is known of its holders.
    let info = describe(&policy, model.holders().ok().as_ref())?;
    Ok(Tagged(info, Some(tag(&policy))))
}

/// Deletes a managed policy that is attached to nothing.
#[utoipa::path(
    delete, path = "/v1/policies/{name}", tag = "users", operation_id = "delete_policy",
    params(("name" = String, Path, description = "The policy: its name or ARN"), DryRun),
    responses(Deletion),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(how): Query<DryRun>,
) -> Result<Deletion, Refusal> {
    let name = changeable(&admin.model, &name).await?;
    if how.dry_run {
        let policy = admin.model.named_policy(&name).await?;
        let info = describe(&policy, Some(&admin.model.holders()?))?;
        let versions = policy.versions.keys().map(u32::to_string);
        return Ok(Plan::default()
            .blocked_by("users", &info.users.unwrap_or_default())
            .blocked_by("groups", &info.groups.unwrap_or_default())
            .blocked_by("roles", &info.roles.unwrap_or_default())
            .takes("versions", &versions.collect::<Vec<_>>())
            .finish());
    }
    admin.model.delete_policy_and_versions(&name).await?;
    Ok(Deletion::Done)
}

/// Returns the name of a policy that is named by its ARN or its name, if it can be changed.
async fn changeable(model: &Model, policy: &str) -> Result<String, Refusal> {
    let policy = model.named_policy(policy).await?;
    if policy.is_built_in() {
        let name = &policy.name;
        let why = format!(
            "every cluster has the policy {name}; it cannot be changed. A policy of your own with \
             this name is named by its ARN"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, "BuiltIn", why));
    }
    Ok(policy.name.clone())
}

/// Returns the tag of a policy: of the version that counts. Other rows say what it is attached to.
fn tag(policy: &ManagedPolicy) -> Tag {
    Tag::of(&(policy.incarnation, policy.default))
}

/// Describes a managed policy. `holders` is `None` if they are not known.
pub(super) fn describe(
    policy: &ManagedPolicy,
    holders: Option<&Holders>,
) -> Result<PolicyInfo, Refusal> {
    let holders = holders.map(|all| all.get(&PolicyRef::to(policy)));
    let of = |kind: &str| {
        let names = holders?.into_iter().flatten();
        let names = names.filter(|holder| holder.kind == kind);
        Some(names.map(|holder| holder.name.clone()).collect())
    };
    let version = policy.versions.get(&policy.default);
    let missing = || Error::Damaged(format!("the policy {} has no version", policy.name));
    Ok(PolicyInfo {
        name: policy.name.clone(),
        arn: policy.arn(),
        description: policy.description.clone(),
        created_ms: policy.created_ms,
        changed_ms: policy.changed_ms,
        built_in: policy.is_built_in(),
        version: policy.default,
        document: version.ok_or_else(missing)?.policy.text().to_owned(),
        users: of("user"),
        groups: of("group"),
        roles: of("role"),
    })
}

/// Returns a change of attached policies, each named by its ARN or its name.
pub(super) async fn attachments(
    model: &Model,
    mut attach: Vec<String>,
    mut detach: Vec<String>,
) -> Result<Attachments, Refusal> {
    for policy in attach.iter_mut().chain(&mut detach) {
        // A policy that is gone has no name any more, but is detached by its ARN.
        if !policy.starts_with("arn:") {
            *policy = model.named_policy(policy).await?.arn();
        }
    }
    Ok(Attachments { attach, detach })
}

/// Returns the names of the inline policies of a user, group or role.
pub(super) fn inline_names(entity: &impl Attached) -> Vec<String> {
    entity.held().inline.keys().cloned().collect()
}

/// Returns the ARNs of the managed policies that are attached to a user, group or role.
pub(super) fn attached(entity: &impl Attached) -> Vec<String> {
    let attached = entity.held().attached.iter();
    attached.map(|policy| policy.arn.clone()).collect()
}

/// The path of an inline policy.
#[derive(Deserialize, IntoParams)]
#[into_params(names("kind", "name", "policy"), parameter_in = Path)]
pub(super) struct InlinePath(
    /// The kind of what has the policy
    HolderKind,
    /// The name of the user, group or role
    String,
    /// The policy's name
    String,
);

/// Shows an inline policy.
#[utoipa::path(
    get, path = "/v1/inline-policies/{kind}/{name}/{policy}", tag = "users",
    operation_id = "get_inline_policy",
    params(InlinePath),
    responses((status = 200, description = "The policy", body = PolicyDocument)),
)]
pub(super) async fn inline(
    State(admin): State<Arc<Admin>>,
    At(InlinePath(kind, name, policy)): At<InlinePath>,
) -> Result<Tagged<PolicyDocument>, Refusal> {
    let model = &admin.model;
    let found = match kind {
        HolderKind::Users => model.inline::<User>(&name, &policy).await?,
        HolderKind::Groups => model.inline::<Group>(&name, &policy).await?,
        HolderKind::Roles => model.inline::<Role>(&name, &policy).await?,
    };
    Ok(tagged(found.text()))
}

/// Adds an inline policy to a user, group or role, or replaces it.
#[utoipa::path(
    put, path = "/v1/inline-policies/{kind}/{name}/{policy}", tag = "users",
    operation_id = "set_inline_policy",
    params(InlinePath, Precondition),
    request_body = PolicyDocument,
    responses((status = 200, description = "The policy", body = PolicyDocument)),
)]
pub(super) async fn set_inline(
    State(admin): State<Arc<Admin>>,
    At(InlinePath(kind, name, policy)): At<InlinePath>,
    condition: Precondition,
    Read(ask): Read<PolicyDocument>,
) -> Result<Tagged<PolicyDocument>, Refusal> {
    let (model, text) = (&admin.model, ask.document.as_str());
    let test = |now: Option<&IdentityPolicy>| admits(&condition, now.map(IdentityPolicy::text));
    let put = match kind {
        HolderKind::Users => {
            let put = model.put_inline_if::<User>(&name, &policy, text, test);
            put.await.map(drop)
        }
        HolderKind::Groups => {
            let put = model.put_inline_if::<Group>(&name, &policy, text, test);
            put.await.map(drop)
        }
        HolderKind::Roles => {
            let put = model.put_inline_if::<Role>(&name, &policy, text, test);
            put.await.map(drop)
        }
    };
    put.map_err(|error| condition.refusal(error))?;
    Ok(tagged(text))
}

/// Removes an inline policy of a user, group or role.
#[utoipa::path(
    delete, path = "/v1/inline-policies/{kind}/{name}/{policy}", tag = "users",
    operation_id = "delete_inline_policy",
    params(InlinePath, Precondition),
    responses((status = 204, description = "It is gone")),
)]
pub(super) async fn delete_inline(
    State(admin): State<Arc<Admin>>,
    At(InlinePath(kind, name, policy)): At<InlinePath>,
    condition: Precondition,
) -> Result<NoContent, Refusal> {
    let model = &admin.model;
    let test = |now: Option<&IdentityPolicy>| admits(&condition, now.map(IdentityPolicy::text));
    let deleted = match kind {
        HolderKind::Users => {
            let deleted = model.delete_inline_if::<User>(&name, &policy, test);
            deleted.await.map(drop)
        }
        HolderKind::Groups => {
            let deleted = model.delete_inline_if::<Group>(&name, &policy, test);
            deleted.await.map(drop)
        }
        HolderKind::Roles => {
            let deleted = model.delete_inline_if::<Role>(&name, &policy, test);
            deleted.await.map(drop)
        }
    };
    deleted.map_err(|error| condition.refusal(error))?;
    Ok(NoContent)
}

fn tagged(text: &str) -> Tagged<PolicyDocument> {
    let document = text.to_owned();
    Tagged(PolicyDocument { document }, Some(Tag::of(text)))
}

/// Returns true if a policy with this text, or the lack of one, allows a change.
fn admits(condition: &Precondition, text: Option<&str>) -> bool {
    condition.admits(text.map(Tag::of))
}

/// Shows the policy of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/policy", tag = "buckets", operation_id = "get_bucket_policy",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The policy", body = PolicyDocument)),
)]
pub(super) async fn of_bucket(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Tagged<PolicyDocument>, Refusal> {
    let bucket = find(&admin, &name).await?;
    let none = || {
        let why = "the bucket has no policy";
        Refusal::new(StatusCode::NOT_FOUND, "NoSuchBucketPolicy", why)
    };
    let policy = bucket.policy.as_ref().ok_or_else(none)?;
    Ok(tagged(policy.text()))
}

/// Sets the policy of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/policy", tag = "buckets", operation_id = "set_bucket_policy",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    request_body = PolicyDocument,
    responses((status = 200, description = "The policy", body = PolicyDocument)),
)]
pub(super) async fn set_of_bucket(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
    Read(ask): Read<PolicyDocument>,
) -> Result<Tagged<PolicyDocument>, Refusal> {
    // A name that stands for the bucket is not the bucket's in policies.
    let bucket = find(&admin, &name).await?;
    let policy = read_bucket_policy(&admin.model, &ask.document, &bucket.name).await?;
    let policy = policy.map_err(|unfit| Error::MalformedPolicy(unfit.why))?;
    let test = |now: Option<&BucketPolicy>| admits(&condition, now.map(BucketPolicy::text));
    let set = admin.model.set_policy_if(&bucket, Some(policy), test).await;
    set.map_err(|error| condition.refusal(error))?;
    Ok(tagged(&ask.document))
}

/// Removes the policy of a bucket.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/policy", tag = "buckets",
    operation_id = "delete_bucket_policy",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    responses((status = 204, description = "It is gone")),
)]
pub(super) async fn delete_of_bucket(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    let test = |now: Option<&BucketPolicy>| admits(&condition, now.map(BucketPolicy::text));
    let removed = admin.model.set_policy_if(&bucket, None, test).await;
    removed.map_err(|error| condition.refusal(error))?;
    Ok(NoContent)
}
