//! Users: list, create, show, their keys, policies and quotas, disable, delete.

use archipel_api::admin::types::{ChangeUser, CreateUser, KeyWithSecret, Page, QuotaUse, UserInfo};
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use http::{Method, Response};
use serde::Deserialize;
use serde_json::Value;

use crate::App;
use crate::backend::{path, query};
use crate::fault::Fault;
use crate::held::{self, Held, Link, links};
use crate::keys::secret;
use crate::page::{Frame, Shown};
use crate::quota::{self, QuotaView};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

/// Users on a page.
const PAGE_ITEMS: &str = "50";

/// Which users to show.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Which {
    after: String,
}

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
pub async fn list(State(app): State<App>, user: User, Query(which): Query<Which>) -> Shown {
    let ask = query(&[("limit", PAGE_ITEMS), ("after", &which.after)]);
    let page: Page<UserInfo> = user.admin(&app).get(&format!("/v1/users{ask}")).await?;
    let next = page
        .next
        .map(|next| format!("/users{}", query(&[("after", &next)])));
    Ok(html(&UsersPage {
        frame: Frame::new(&user, "users"),
        is_first: which.after.is_empty(),
        users: page.items,
        next,
    }))
}

/// Creates a user.
pub async fn create(State(app): State<App>, posted: Posted) -> Result<Response<Body>, Fault> {
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
    let of_api = path(&["v1", "users", &name]);
    let here = path(&["users", &name]);
    if held::change(&admin, &of_api, fields).await? {
        return Ok(see(&here));
    }
    match fields.get("change") {
        "delete" => {
            admin.delete(&of_api).await?;
            Ok(see("/users"))
        }
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
        other => Err(Fault::invalid(format!("there is no change {other:?}"))),
    }
}
