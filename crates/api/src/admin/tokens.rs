//! Tokens of the cluster.

use std::sync::Arc;

use archipel_model::{AdminToken, NewToken, TokenChange};
use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, NoContent, Query, Read, Refusal, check_time};
use super::auth::{Caller, parse_scope, show_scope};
use super::page::page;
use super::types::{ChangeToken, CreateToken, Page, TokenInfo, TokenWithSecret};

/// The filters of the list of tokens.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListTokens {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only tokens after this id: the `next` of the former page.
    after: Option<String>,
    /// Only tokens whose name for people contains this.
    name: Option<String>,
}

/// Lists the cluster's tokens, by id. Their secrets are not known to anybody.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens",
    params(ListTokens),
    responses((status = 200, description = "Tokens", body = Page<TokenInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListTokens>,
) -> Result<Json<Page<TokenInfo>>, Refusal> {
    let part = query.name.as_deref().unwrap_or_default();
    let tokens = admin.model.admin_tokens()?.into_iter();
    let tokens = tokens.filter(|token| token.name.contains(part));
    let tokens = page(tokens, |t| &t.id, query.limit, query.after.as_deref())?;
    Ok(Json(tokens.map(|token| describe(&admin, &token))))
}

/// Creates a token. Its secret is in the answer and cannot be shown again.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", operation_id = "create_token",
    request_body = CreateToken,
    responses((status = 201, description = "The token with its secret", body = TokenWithSecret)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreateToken>,
) -> Result<Created<TokenWithSecret>, Refusal> {
    let scopes = ask.scopes.iter();
    let scopes = scopes.map(|scope| parse_scope(scope, &admin.resources));
    let expires_ms = ask.valid_seconds.map(|seconds| expiry(&admin, seconds));
    let new = NewToken {
        name: ask.name,
        scopes: scopes.collect::<Result<_, _>>()?,
        expires_ms: expires_ms.transpose()?,
    };
    let (token, secret) = admin.model.create_admin_token(new).await?;
    Ok(Created(TokenWithSecret {
        token: describe(&admin, &token),
        secret: secret.expose().to_owned(),
    }))
}

/// Shows the token that this request carries.
#[utoipa::path(
    get, path = "/v1/tokens/self", tag = "tokens", operation_id = "get_current_token",
    responses((status = 200, description = "The token", body = TokenInfo)),
)]
pub(super) async fn current(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<TokenInfo>, Refusal> {
    match caller {
        Caller::Token(token) => Ok(Json(describe(&admin, &token))),
        _ => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "NoSuchToken",
            "the request carries no token of the cluster: it came over the local socket, or with the token of the settings",
        )),
    }
}

/// Shows a token.
#[utoipa::path(
    get, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "get_token",
    params(("id" = String, Path, description = "The token's id")),
    responses((status = 200, description = "The token", body = TokenInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
) -> Result<Json<TokenInfo>, Refusal> {
    let token = admin.model.find_admin_token(&id).await?;
    let token = token.ok_or(archipel_model::Error::NoSuchToken)?;
    Ok(Json(describe(&admin, &token)))
}

/// Changes a token. Absent fields change nothing; the secret always stays as it is.
#[utoipa::path(
    patch, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "change_token",
    params(("id" = String, Path, description = "The token's id")),
    request_body = ChangeToken,
    responses((status = 200, description = "The token", body = TokenInfo)),
)]
pub(super) async fn change(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
    Read(ask): Read<ChangeToken>,
) -> Result<Json<TokenInfo>, Refusal> {
    let scopes = ask.scopes.map(|scopes| {
        let scopes = scopes.iter();
        let scopes = scopes.map(|scope| parse_scope(scope, &admin.resources));
        scopes.collect::<Result<Vec<_>, _>>()
    });
    let expires_ms = ask.valid_seconds.map(|seconds| match seconds {
        0 => Ok(None),
        seconds => expiry(&admin, seconds).map(Some),
    });
    let change = TokenChange {
        name: ask.name,
        scopes: scopes.transpose()?,
        expires_ms: expires_ms.transpose()?,
    };
    let token = admin.model.change_admin_token(&id, change).await?;
    Ok(Json(describe(&admin, &token)))
}

/// Returns the time in so many seconds, in milliseconds since 1970.
fn expiry(admin: &Admin, seconds: u64) -> Result<u64, Refusal> {
    let now_ms = admin.model.cluster().now_ms();
    let at_ms = now_ms.saturating_add(seconds.saturating_mul(1000));
    check_time("valid_seconds", at_ms)
}

/// Revokes a token. Requests that carry it are refused from then on.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(("id" = String, Path, description = "The token's id")),
    responses((status = 204, description = "It is revoked")),
)]
pub(super) async fn revoke(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
) -> Result<NoContent, Refusal> {
    admin.model.revoke_admin_token(&id).await?;
    Ok(NoContent)
}

fn describe(admin: &Admin, token: &AdminToken) -> TokenInfo {
    TokenInfo {
        id: token.id.clone(),
        name: token.name.clone(),
        created_ms: token.created_ms,
        expires_ms: token.expires_ms,
        expired: !token.is_live(admin.model.cluster().now_ms()),
        scopes: token.scopes.iter().map(show_scope).collect(),
    }
}
