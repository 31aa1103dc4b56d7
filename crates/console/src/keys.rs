//! Access keys: list, create, import, show, disable, let expire, delete. A secret is shown once.

use archipel_api::admin::types::{ChangeKey, CreateKey, KeyInfo, KeyWithSecret};
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use http::{Method, Response};
use serde::Deserialize;

use crate::App;
use crate::backend::{path, query};
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Fields, Posted, User};
use crate::show;

/// The filter of the list, and the place of the page in it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Filter {
    name: String,
    after: String,
}

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage {
    frame: Frame,
    name: String,
    is_first: bool,
    keys: Vec<KeyInfo>,
    next: Option<String>,
    now_ms: u64,
}

#[derive(Template)]
#[template(path = "key.html")]
struct KeyPage {
    frame: Frame,
    base: String,
    key: KeyInfo,
    now_ms: u64,
}

/// A secret that was just made.
#[derive(Template)]
#[template(path = "secret.html")]
pub struct SecretPage {
    frame: Frame,
    what: &'static str,
    name: String,
    id: String,
    secret: String,
    back: String,
}

/// Returns the state of a key, and the style of its dot.
fn state(key: &KeyInfo, now_ms: u64) -> (&'static str, &'static str) {
    match key.expires_ms {
        _ if key.disabled => ("disabled", "idle"),
        Some(at_ms) if at_ms <= now_ms => ("expired", "bad"),
        _ => ("in use", "good"),
    }
}

/// Returns when a key expires.
fn expires(key: &KeyInfo) -> String {
    key.expires_ms.map_or("never".into(), show::time)
}

impl KeysPage {
    fn state(&self, key: &KeyInfo) -> (&'static str, &'static str) {
        state(key, self.now_ms)
    }

    fn expires(&self, key: &KeyInfo) -> String {
        expires(key)
    }

    fn link(&self, key: &KeyInfo) -> String {
        path(&["keys", &key.id])
    }

    fn created(&self, key: &KeyInfo) -> String {
        show::time(key.created_ms)
    }

    fn first(&self) -> String {
        format!("/keys{}", query(&[("name", &self.name)]))
    }
}

impl KeyPage {
    fn state(&self) -> (&'static str, &'static str) {
        state(&self.key, self.now_ms)
    }

    fn expires(&self) -> String {
        expires(&self.key)
    }

    fn created(&self) -> String {
        show::time(self.key.created_ms)
    }

    fn bucket(&self, name: &str) -> String {
        format!("{}/settings", path(&["buckets", name]))
    }
}

/// Returns the page that shows a secret for the only time.
pub fn secret(frame: Frame, what: &'static str, made: [String; 3], back: String) -> Response<Body> {
    let [name, id, secret] = made;
    html(&SecretPage {
        frame,
        what,
        name,
        id,
        secret,
        back,
    })
}

/// Shows a page of the list.
pub async fn list(State(app): State<App>, user: User, Query(filter): Query<Filter>) -> Shown {
    let admin = user.admin(&app);
    let filters = [("name", filter.name.as_str())];
    let page = admin.page("/keys", &filters, &filter.after).await?;
    Ok(html(&KeysPage {
        frame: Frame::new(&user, "keys"),
        name: filter.name,
        is_first: page.is_first,
        keys: page.items,
        next: page.next,
        now_ms: app.clock.now_millis(),
    }))
}

/// Creates a key, or imports one: with an id and a secret.
pub async fn create(State(app): State<App>, posted: Posted) -> Shown {
    let fields = &posted.fields;
    let ask = CreateKey {
        name: fields.get("name").to_owned(),
        create_bucket: fields.is_checked("create_bucket"),
        id: fields.some("id"),
        secret: fields.some("secret"),
        expires_ms: end(&app, fields)?,
    };
    let admin = posted.user.admin(&app);
    let made: KeyWithSecret = admin.send(Method::POST, "/v1/keys", &ask).await?;
    let back = path(&["keys", &made.key.id]);
    let frame = Frame::new(&posted.user, "keys");
    let made = [made.key.name, made.key.id, made.secret];
    Ok(secret(frame, "access key", made, back))
}

/// Returns the end of the days of a form, in milliseconds since 1970.
fn end(app: &App, fields: &Fields) -> Result<Option<u64>, Fault> {
    let now_ms = app.clock.now_millis();
    let end = |seconds: u64| now_ms.saturating_add(seconds.saturating_mul(1000));
    Ok(fields.days("days")?.map(end))
}

/// Shows a key.
pub async fn show(State(app): State<App>, user: User, Path(id): Path<String>) -> Shown {
    Ok(html(&KeyPage {
        frame: Frame::new(&user, "keys"),
        base: path(&["keys", &id]),
        key: user.admin(&app).get(&path(&["v1", "keys", &id])).await?,
        now_ms: app.clock.now_millis(),
    }))
}

/// Changes or deletes a key: the form says what.
pub async fn change(State(app): State<App>, Path(id): Path<String>, posted: Posted) -> Shown {
    let admin = posted.user.admin(&app);
    let of_api = path(&["v1", "keys", &id]);
    let change = posted.fields.get("change");
    let ask = match change {
        "delete" => {
            admin.delete(&of_api).await?;
            return Ok(see("/keys"));
        }
        "disable" | "enable" => ChangeKey {
            disabled: Some(change == "disable"),
            ..ChangeKey::default()
        },
        "create-buckets" | "no-buckets" => ChangeKey {
            create_bucket: Some(change == "create-buckets"),
            ..ChangeKey::default()
        },
        // The admin API takes 0 for never.
        "expire" => ChangeKey {
            expires_ms: Some(end(&app, &posted.fields)?.unwrap_or(0)),
            ..ChangeKey::default()
        },
        other => return Err(Fault::unknown_change(other)),
    };
    let _: KeyInfo = admin.send(Method::PATCH, &of_api, &ask).await?;
    Ok(see(&path(&["keys", &id])))
}
