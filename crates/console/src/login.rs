//! Login by a token of the admin API, or by a link that holds one; and logout.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use archipel_api::admin::types::{ChangeToken, CreateToken, TokenInfo, TokenWithSecret};
use archipel_api::serve::Peer;
use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::guard::is_secure;
use crate::render::{html, see};
use crate::request::{Fields, Posted, User};
use crate::session::{LONGEST, Session};

/// The name of a user who logs in with the token of the settings.
const OPERATOR: &str = "operator";

/// The time to claim a link.
const CLAIM_TIME: Duration = Duration::from_secs(60);

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    refused: Option<&'a str>,
}

/// Shows the form. A link to it holds a token behind `#`, which browsers do not send: the script
/// posts it.
pub async fn show() -> Response<Body> {
    html(&LoginPage { refused: None })
}

/// Begins a session with a token.
pub async fn enter(State(app): State<App>, request: Request<Body>) -> Response<Body> {
    answer(&app, request, false).await
}

/// Begins a session with the token of a link, which counts only once: the session gets a token of
/// its own with the same rights.
pub async fn follow_link(State(app): State<App>, request: Request<Body>) -> Response<Body> {
    answer(&app, request, true).await
}

/// Ends the session. The browser forgets its cookie also if the session's own token cannot be revoked.
pub async fn leave(State(app): State<App>, posted: Posted) -> Response<Body> {
    app.sessions.end(&posted.user.session);
    let answer = match revoke_own_token(&app, &posted.user).await {
        Ok(()) => see("/login"),
        Err(fault) => fault.into_response(),
    };
    let answer = with_cookie(answer, app.set_cookie(None, true));
    with_cookie(answer, app.set_cookie(None, false))
}

/// Revokes the own tokens of sessions that have ended without a logout, in the background.
pub fn revoke_ended(app: &App) {
    for session in app.sessions.take_ended() {
        let app = app.clone();
        tokio::spawn(async move {
            let user = User {
                session,
                peer: None,
            };
            // If this fails, the audit log tells it, and the token expires by itself.
            let _ = revoke_own_token(&app, &user).await;
        });
    }
}

async fn revoke_own_token(app: &App, user: &User) -> Result<(), Fault> {
    match &user.session.own_token {
        Some(id) => user.admin(app).delete(&path(&["v1", "tokens", id])).await,
        None => Ok(()),
    }
}

async fn answer(app: &App, request: Request<Body>, is_link: bool) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (secure, peer) = (is_secure(&parts), parts.extensions.get::<Peer>().copied());
    let fields = match Fields::read(Request::from_parts(parts, body)).await {
        Ok(fields) => fields,
        Err(answer) => return answer,
    };
    let user = user_with(fields.get("token").to_owned(), peer.map(|peer| peer.0));
    let begun = begin(app, &user, is_link).await;
    revoke_ended(app);
    match begun {
        Ok(cookie) => with_cookie(see("/cluster"), app.set_cookie(Some(&cookie), secure)),
        Err(fault) if fault.status == StatusCode::UNAUTHORIZED => {
            let why = match is_link {
                true => "This link was used before, or it is too old. Make another one.",
                false => "This token is unknown, expired or revoked.",
            };
            let page = html(&LoginPage { refused: Some(why) });
            (StatusCode::UNAUTHORIZED, page).into_response()
        }
        Err(fault) => fault.into_response(),
    }
}

fn user_with(token: String, peer: Option<IpAddr>) -> User {
    User {
        session: Arc::new(Session {
            token,
            name: String::new(),
            csrf: String::new(),
            own_token: None,
        }),
        peer,
    }
}

/// Begins a session and returns its cookie.
async fn begin(app: &App, user: &User, is_link: bool) -> Result<String, Fault> {
    let admin = user.admin(app);
    let given: Option<TokenInfo> = match admin.get("/v1/tokens/self").await {
        Ok(token) => Some(token),
        // The token of the settings is none of the cluster.
        Err(fault) if fault.code == "NoSuchToken" => None,
        Err(fault) => return Err(fault),
    };
    let token = user.session.token.clone();
    let Some(given) = given else {
        return Ok(app.sessions.begin(token, OPERATOR.into(), None));
    };
    if !is_link {
        return Ok(app.sessions.begin(token, given.name, None));
    }
    let own = exchange(app, user, &given).await?;
    Ok(app
        .sessions
        .begin(own.secret, given.name, Some(own.token.id)))
}

/// Exchanges the token of a link for one of the session. The request that revokes the link's token
/// has claimed the link. Until then the new token counts for a moment only, so that nothing stays of
/// a request that comes too late, or that is cut off.
async fn exchange(app: &App, user: &User, link: &TokenInfo) -> Result<TokenWithSecret, Fault> {
    let admin = user.admin(app);
    let ask = CreateToken {
        name: link.name.clone(),
        scopes: link.scopes.clone(),
        valid_seconds: Some(CLAIM_TIME.as_secs()),
    };
    let own: TokenWithSecret = admin.send(Method::POST, "/v1/tokens", &ask).await?;
    let own_user = user_with(own.secret.clone(), user.peer);
    let as_own = own_user.admin(app);
    let route = path(&["v1", "tokens", &own.token.id]);
    if let Err(fault) = admin.delete(&path(&["v1", "tokens", &link.id])).await {
        // If this fails, too, the token expires soon.
        let _ = as_own.delete(&route).await;
        return Err(match fault.code.as_str() {
            "NoSuchToken" => Fault::ended(),
            _ => fault,
        });
    }
    let longer = ChangeToken {
        valid_seconds: Some(LONGEST.as_secs()),
        ..ChangeToken::default()
    };
    let _: TokenInfo = as_own.send(Method::PATCH, &route, &longer).await?;
    Ok(own)
}

fn with_cookie(mut answer: Response<Body>, cookie: String) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().append(header::SET_COOKIE, value);
    }
    answer
}
