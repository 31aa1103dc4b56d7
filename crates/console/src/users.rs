//! Users: list, create, show, their keys, policies and quotas, disable, delete.

use archipel_api::admin::types::{ChangeUser, CreateUser, KeyWithSecret, QuotaUse, UserInfo};
use askama::Template;
use axum::extract::{Path, Query, State};
use http::Method;
use serde_json::Value;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::held::{self, Held, Link, links};
use crate::keys::secret;
use crate::lists::Place;
use crate::page::{Frame, Shown};
use crate::quota::{self, QuotaView};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage {
    frame: Frame,
    is_first: bool,
    users: Vec<UserInfo>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "user.html")]
struct UserPage {
    frame: Frame,
    base: String,
    groups: Vec<Link>,
    held: Held,
    quota: QuotaView,
    user: UserInfo,
}

impl UsersPage {
    fn link(&self, user: &UserInfo) -> String {
        path(&["users", &user.name])
    }

    fn created(&self, user: &UserInfo) -> String {
        show::time(user.created_ms)
    }
}

impl UserPage {
    fn created(&self) -> String {
        show::time(self.user.created_ms)
    }

    fn key(&self, id: &str) -> String {
        path(&["keys", id])
    }
}

/// Shows a page of the list.
pub async fn list(State(app): State<App>, user: User, Query(place): Query<Place>) -> Shown {
    let page = user.admin(&app).page("/users", &[], &place.after).await?;
    Ok(html(&UsersPage {
        frame: Frame::new(&user, "users"),
        is_first: page.is_first,
        users: page.items,
        next: page.next,
    }))
}

/// Creates a user.
pub async fn create(State(app): State<App>, posted: Posted) -> Shown {
    let ask = CreateUser {
        name: posted.fields.get("name").to_owned(),
        path: posted.fields.some("path"),
        attach: Vec::new(),
    };
    let admin = posted.user.admin(&app);
    let made: UserInfo = admin.send(Method::POST, "/v1/users", &ask).await?;
    Ok(see(&path(&["users", &made.name])))
}

/// Shows a user.
pub async fn show(State(app): State<App>, user: User, Path(name): Path<String>) -> Shown {
    let of_api = path(&["v1", "users", &name]);
    let admin = user.admin(&app);
    let shown: UserInfo = admin.get(&of_api).await?;
    Ok(html(&UserPage {
        frame: Frame::new(&user, "users"),
        base: path(&["users", &name]),
        groups: links("groups", &shown.groups),
        held: Held::new("users", &name, &shown.policies, &shown.inline_policies),
        quota: QuotaView(admin.get(&format!("{of_api}/quota")).await?),
        user: shown,
    }))
}

/// Changes or deletes a user, sets its quota, or makes a key: the form says what.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (admin, fields) = (posted.user.admin(&app), &posted.fields);
    if let Some(done) = held::change(&admin, "users", &name, fields).await? {
        return Ok(done);
    }
    let of_api = path(&["v1", "users", &name]);
    let here = path(&["users", &name]);
    match fields.get("change") {
        change @ ("disable" | "enable") => {
            let ask = ChangeUser {
                disabled: Some(change == "disable"),
                ..ChangeUser::default()
            };
            let _: UserInfo = admin.send(Method::PATCH, &of_api, &ask).await?;
            Ok(see(&here))
        }
        "quota" => {
            let at = format!("{of_api}/quota");
            let ask = quota::read(fields)?;
            let _: QuotaUse = admin.send(Method::PUT, &at, &ask).await?;
            Ok(see(&here))
        }
        "key" => {
            let keys = format!("{of_api}/keys");
            let made: KeyWithSecret = admin.send(Method::POST, &keys, &Value::Null).await?;
            let frame = Frame::new(&posted.user, "users");
            let made = [name, made.key.id, made.secret];
            Ok(secret(frame, "access key", made, here))
        }
        other => Err(Fault::unknown_change(other)),
    }
}
