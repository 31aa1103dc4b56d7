//! Roles: list, create, show, who may assume them, their policies, delete.

use archipel_api::admin::types::{ChangeRole, CreateRole, RoleInfo};
use askama::Template;
use axum::extract::{Path, Query, State};
use http::Method;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::held::{self, Held};
use crate::lists::Place;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Fields, Posted, User, mark};
use crate::show;

#[derive(Template)]
#[template(path = "roles.html")]
struct RolesPage {
    frame: Frame,
    is_first: bool,
    roles: Vec<RoleInfo>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "role.html")]
struct RolePage {
    frame: Frame,
    base: String,
    role: RoleInfo,
    held: Held,
}

impl RolesPage {
    fn link(&self, role: &RoleInfo) -> String {
        path(&["roles", &role.name])
    }

    fn created(&self, role: &RoleInfo) -> String {
        show::time(role.created_ms)
    }
}

impl RolePage {
    fn created(&self) -> String {
        show::time(self.role.created_ms)
    }

    /// Returns the mark of what the form shows.
    fn shown(&self) -> String {
        mark(&shown(&self.role))
    }
}

/// Returns what the form shows of a role.
fn shown(role: &RoleInfo) -> String {
    let RoleInfo {
        description,
        max_session_seconds,
        trust,
        ..
    } = role;
    format!("{max_session_seconds} {description}\n{trust}")
}

/// Shows a page of the list.
pub async fn list(State(app): State<App>, user: User, Query(place): Query<Place>) -> Shown {
    let page = user.admin(&app).page("/roles", &[], &place.after).await?;
    Ok(html(&RolesPage {
        frame: Frame::new(&user, "users"),
        is_first: page.is_first,
        roles: page.items,
        next: page.next,
    }))
}

/// Reads the longest session of a form.
fn seconds(fields: &Fields) -> Result<Option<u32>, Fault> {
    let wrong = |text: &String| Fault::invalid(format!("{text:?} is no number of seconds"));
    let read = |text: String| text.parse().map_err(|_| wrong(&text));
    fields.some("seconds").map(read).transpose()
}

/// Creates a role.
pub async fn create(State(app): State<App>, posted: Posted) -> Shown {
    let fields = &posted.fields;
    let ask = CreateRole {
        name: fields.get("name").to_owned(),
        path: None,
        description: fields.get("description").to_owned(),
        max_session_seconds: seconds(fields)?,
        trust: fields.text("trust"),
    };
    let admin = posted.user.admin(&app);
    let made = admin
        .send::<RoleInfo>(Method::POST, "/v1/roles", &ask)
        .await;
    match made {
        Ok(made) => Ok(see(&path(&["roles", &made.name]))),
        Err(fault) => held::again(&posted, "trust", "/roles", "/roles", fault),
    }
}

/// Shows a role.
pub async fn show(State(app): State<App>, user: User, Path(name): Path<String>) -> Shown {
    let of_api = path(&["v1", "roles", &name]);
    let role: RoleInfo = user.admin(&app).get(&of_api).await?;
    Ok(html(&RolePage {
        frame: Frame::new(&user, "users"),
        base: path(&["roles", &name]),
        held: Held::new("roles", &name, &role.policies, &role.inline_policies),
        role,
    }))
}

/// Changes or deletes a role: the form says what.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (admin, fields) = (posted.user.admin(&app), &posted.fields);
    if let Some(done) = held::change(&admin, "roles", &name, fields).await? {
        return Ok(done);
    }
    let of_api = path(&["v1", "roles", &name]);
    let here = path(&["roles", &name]);
    match fields.get("change") {
        "set" => {
            let ask = ChangeRole {
                description: Some(fields.get("description").to_owned()),
                max_session_seconds: seconds(fields)?,
                trust: Some(fields.text("trust")),
                ..ChangeRole::default()
            };
            let set = async {
                let (now, seen) = admin.get_seen::<RoleInfo>(&of_api).await?;
                fields.check_shown(&shown(&now))?;
                admin.patch_if::<RoleInfo>(&of_api, &ask, &seen).await
            };
            match set.await {
                Ok(_) => Ok(see(&here)),
                Err(fault) => held::again(&posted, "trust", &here, &here, fault),
            }
        }
        other => Err(Fault::unknown_change(other)),
    }
}
