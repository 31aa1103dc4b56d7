//! Identity providers of OpenID Connect.

use std::sync::Arc;

use archipel_access::principal::provider_arn;
use archipel_model::identity::{NewProvider, Provider, ProviderChange};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, NoContent, Query, Read, Refusal};
use super::page::entities;
use super::types::{ChangeProvider, CreateProvider, Page, ProviderInfo};

/// The filters of the list of identity providers.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListProviders {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only providers after this name: the `next` of the former page.
    after: Option<String>,
}

/// Lists identity providers, by name.
#[utoipa::path(
    get, path = "/v1/identity-providers", tag = "users", operation_id = "list_identity_providers",
    params(ListProviders),
    responses((status = 200, description = "Identity providers", body = Page<ProviderInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListProviders>,
) -> Result<Json<Page<ProviderInfo>>, Refusal> {
    let all = |_: &Provider| true;
    let providers = entities(&admin.model, all, query.limit, query.after.as_deref())?;
    Ok(Json(providers.map(|provider| describe(&provider))))
}

/// Makes an identity provider known. Roles whose trust policy names it take its tokens.
#[utoipa::path(
    post, path = "/v1/identity-providers", tag = "users", operation_id = "create_identity_provider",
    request_body = CreateProvider,
    responses((status = 201, description = "The identity provider", body = ProviderInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreateProvider>,
) -> Result<Created<ProviderInfo>, Refusal> {
    let created = admin.model.create_provider(NewProvider {
        url: ask.url,
        clients: ask.clients,
        thumbprints: ask.thumbprints,
        tags: Vec::new(),
    });
    Ok(Created(describe(&*created.await?)))
}

/// Shows an identity provider.
#[utoipa::path(
    get, path = "/v1/identity-providers/{name}", tag = "users",
    operation_id = "get_identity_provider",
    params(("name" = String, Path, description = "The name: the issuer without https://")),
    responses((status = 200, description = "The identity provider", body = ProviderInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<ProviderInfo>, Refusal> {
    let found = admin.model.find_entity::<Provider>(&name).await?;
    Ok(Json(describe(&found)))
}

/// Changes the audiences and the thumbprints of an identity provider. Absent fields change nothing.
#[utoipa::path(
    patch, path = "/v1/identity-providers/{name}", tag = "users",
    operation_id = "change_identity_provider",
    params(("name" = String, Path, description = "The name: the issuer without https://")),
    request_body = ChangeProvider,
    responses((status = 200, description = "The identity provider", body = ProviderInfo)),
)]
pub(super) async fn change(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(change): Read<ChangeProvider>,
) -> Result<Json<ProviderInfo>, Refusal> {
    let change = ProviderChange {
        add_clients: change.add_clients,
        remove_clients: change.remove_clients,
        thumbprints: change.thumbprints,
    };
    let changed = admin.model.change_provider(&name, change).await?;
    Ok(Json(describe(&changed.value)))
}

/// Deletes an identity provider. The sessions that began with its tokens end.
#[utoipa::path(
    delete, path = "/v1/identity-providers/{name}", tag = "users",
    operation_id = "delete_identity_provider",
    params(("name" = String, Path, description = "The name: the issuer without https://")),
    responses((status = 204, description = "It is deleted")),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    admin.model.delete_provider(&name).await?;
    Ok(NoContent)
}

fn describe(provider: &Provider) -> ProviderInfo {
    ProviderInfo {
        name: provider.name.clone(),
        url: provider.url.clone(),
        arn: provider_arn(&provider.name),
        created_ms: provider.created_ms,
        clients: provider.clients.iter().cloned().collect(),
        thumbprints: provider.thumbprints.clone(),
    }
}
