//! Tokens of the admin API: list, create, revoke. A secret is shown once.

use archipel_api::admin::types::{CreateToken, TokenInfo, TokenWithSecret};
use askama::Template;
use axum::extract::{Path, Query, State};
use http::Method;

use crate::App;
use crate::backend::path;
use crate::keys::secret;
use crate::lists::Place;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensPage {
    frame: Frame,
    is_first: bool,
    tokens: Vec<TokenInfo>,
    next: Option<String>,
}

impl TokensPage {
    fn revoke(&self, token: &TokenInfo) -> String {
        format!("{}/revoke", path(&["tokens", &token.id]))
    }

    fn expires(&self, token: &TokenInfo) -> String {
        token.expires_ms.map_or("never".into(), show::time)
    }
}

/// Shows a page of the list.
pub async fn list(State(app): State<App>, user: User, Query(place): Query<Place>) -> Shown {
    let page = user.admin(&app).page("/tokens", &[], &place.after).await?;
    Ok(html(&TokensPage {
        frame: Frame::new(&user, "tokens"),
        is_first: page.is_first,
        tokens: page.items,
        next: page.next,
    }))
}

/// Creates a token.
pub async fn create(State(app): State<App>, posted: Posted) -> Shown {
    let fields = &posted.fields;
    let ask = CreateToken {
        name: fields.get("name").to_owned(),
        scopes: fields.words("scopes"),
        valid_seconds: fields.days("days")?,
    };
    let admin = posted.user.admin(&app);
    let made: TokenWithSecret = admin.send(Method::POST, "/v1/tokens", &ask).await?;
    let frame = Frame::new(&posted.user, "tokens");
    let made = [made.token.name, made.token.id, made.secret];
    Ok(secret(frame, "token", made, "/tokens".into()))
}

/// Revokes a token.
pub async fn revoke(State(app): State<App>, Path(id): Path<String>, posted: Posted) -> Shown {
    let of_api = path(&["v1", "tokens", &id]);
    posted.user.admin(&app).delete(&of_api).await?;
    Ok(see("/tokens"))
}
