//! Policies: managed ones, inline ones of users, groups and roles, and those of buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_model::identity::{
    Attached, Attachments, BUILT_IN, Group, Holder, ManagedPolicy, NewPolicy, PolicyRef, ROOT_PATH,
    Role, User,
};
use archipel_model::{Error, Model};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, NoContent, Query, Read, Refusal};
use super::buckets::find;
use super::deletion::{Deletion, DryRun, Plan};
use super::page::page;
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
    part.try_map(|(_, policy)| describe(&policy, &holders))
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
    Ok(Created(describe(&policy, &Holders::new())?))
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
) -> Result<Json<PolicyInfo>, Refusal> {
    let policy = admin.model.named_policy(&name).await?;
    Ok(Json(describe(&policy, &admin.model.holders()?)?))
}

/// Replaces the document of a managed policy. It becomes a new version, which counts; of more than
/// five versions, the oldest goes.
#[utoipa::path(
    put, path = "/v1/policies/{name}", tag = "users", operation_id = "replace_policy",
    params(("name" = String, Path, description = "The policy: its name or ARN")),
    request_body = PolicyDocument,
    responses((status = 200, description = "The policy", body = PolicyInfo)),
)]
pub(super) async fn replace(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(ask): Read<PolicyDocument>,
) -> Result<Json<PolicyInfo>, Refusal> {
    let name = changeable(&admin.model, &name).await?;
    let changed = admin.model.replace_policy(&name, &ask.document).await?;
    Ok(Json(describe(&changed.value, &admin.model.holders()?)?))
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
        let info = describe(&policy, &admin.model.holders()?)?;
        let versions = policy.versions.keys().map(u32::to_string);
        return Ok(Plan::default()
            .blocked_by("users", &info.users)
            .blocked_by("groups", &info.groups)
            .blocked_by("roles", &info.roles)
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

fn describe(policy: &ManagedPolicy, holders: &Holders) -> Result<PolicyInfo, Refusal> {
    let holders = holders.get(&PolicyRef::to(policy));
    let of = |kind: &str| {
        let names = holders.into_iter().flatten();
        let names = names.filter(|holder| holder.kind == kind);
        names.map(|holder| holder.name.clone()).collect()
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
) -> Result<Json<PolicyDocument>, Refusal> {
    let model = &admin.model;
    let found = match kind {
        HolderKind::Users => model.inline::<User>(&name, &policy).await?,
        HolderKind::Groups => model.inline::<Group>(&name, &policy).await?,
        HolderKind::Roles => model.inline::<Role>(&name, &policy).await?,
    };
    let document = found.text().to_owned();
    Ok(Json(PolicyDocument { document }))
}

/// Adds an inline policy to a user, group or role, or replaces it.
#[utoipa::path(
    put, path = "/v1/inline-policies/{kind}/{name}/{policy}", tag = "users",
    operation_id = "set_inline_policy",
    params(InlinePath),
    request_body = PolicyDocument,
    responses((status = 200, description = "The policy", body = PolicyDocument)),
)]
pub(super) async fn set_inline(
    State(admin): State<Arc<Admin>>,
    At(InlinePath(kind, name, policy)): At<InlinePath>,
    Read(ask): Read<PolicyDocument>,
) -> Result<Json<PolicyDocument>, Refusal> {
    let (model, text) = (&admin.model, ask.document.as_str());
    match kind {
        HolderKind::Users => model
            .put_inline::<User>(&name, &policy, text)
            .await?
            .forget(),
        HolderKind::Groups => model
            .put_inline::<Group>(&name, &policy, text)
            .await?
            .forget(),
        HolderKind::Roles => model
            .put_inline::<Role>(&name, &policy, text)
            .await?
            .forget(),
    };
    Ok(Json(ask))
}

/// Removes an inline policy of a user, group or role.
#[utoipa::path(
    delete, path = "/v1/inline-policies/{kind}/{name}/{policy}", tag = "users",
    operation_id = "delete_inline_policy",
    params(InlinePath),
    responses((status = 204, description = "It is gone")),
)]
pub(super) async fn delete_inline(
    State(admin): State<Arc<Admin>>,
    At(InlinePath(kind, name, policy)): At<InlinePath>,
) -> Result<NoContent, Refusal> {
    let model = &admin.model;
    match kind {
        HolderKind::Users => model.delete_inline::<User>(&name, &policy).await?.forget(),
        HolderKind::Groups => model.delete_inline::<Group>(&name, &policy).await?.forget(),
        HolderKind::Roles => model.delete_inline::<Role>(&name, &policy).await?.forget(),
    };
    Ok(NoContent)
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
) -> Result<Json<PolicyDocument>, Refusal> {
    let bucket = find(&admin, &name).await?;
    let none = || {
        let why = "the bucket has no policy";
        Refusal::new(StatusCode::NOT_FOUND, "NoSuchBucketPolicy", why)
    };
    let document = bucket.policy.as_ref().ok_or_else(none)?.text().to_owned();
    Ok(Json(PolicyDocument { document }))
}

/// Sets the policy of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/policy", tag = "buckets", operation_id = "set_bucket_policy",
    params(("name" = String, Path, description = "The bucket")),
    request_body = PolicyDocument,
    responses((status = 200, description = "The policy", body = PolicyDocument)),
)]
pub(super) async fn set_of_bucket(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(ask): Read<PolicyDocument>,
) -> Result<Json<PolicyDocument>, Refusal> {
    // A name that stands for the bucket is not the bucket's in policies.
    let bucket = find(&admin, &name).await?;
    let policy = read_bucket_policy(&admin.model, &ask.document, &bucket.name).await?;
    let policy = policy.map_err(|unfit| Error::MalformedPolicy(unfit.why))?;
    admin.model.set_policy(&bucket, Some(policy)).await?;
    Ok(Json(ask))
}

/// Removes the policy of a bucket.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/policy", tag = "buckets",
    operation_id = "delete_bucket_policy",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "It is gone")),
)]
pub(super) async fn delete_of_bucket(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    admin.model.set_policy(&bucket, None).await?;
    Ok(NoContent)
}
