//! Groups of users: list, create, show, their users and policies, delete.

use archipel_api::admin::types::{ChangeGroup, CreateGroup, GroupInfo};
use askama::Template;
use axum::extract::{Path, Query, State};
use http::Method;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::held::{self, Held, Link, links};
use crate::lists::Place;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

#[derive(Template)]
#[template(path = "groups.html")]
struct GroupsPage {
    frame: Frame,
    is_first: bool,
    groups: Vec<GroupInfo>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "group.html")]
struct GroupPage {
    frame: Frame,
    base: String,
    group: GroupInfo,
    users: Vec<Link>,
    held: Held,
}

impl GroupsPage {
    fn link(&self, group: &GroupInfo) -> String {
        path(&["groups", &group.name])
    }

    fn created(&self, group: &GroupInfo) -> String {
        show::time(group.created_ms)
    }
}

impl GroupPage {
    fn created(&self) -> String {
        show::time(self.group.created_ms)
    }
}

/// Shows a page of the list.
pub async fn list(State(app): State<App>, user: User, Query(place): Query<Place>) -> Shown {
    let page = user.admin(&app).page("/groups", &[], &place.after).await?;
    Ok(html(&GroupsPage {
        frame: Frame::new(&user, "users"),
        is_first: page.is_first,
        groups: page.items,
        next: page.next,
    }))
}

/// Creates a group.
pub async fn create(State(app): State<App>, posted: Posted) -> Shown {
    let ask = CreateGroup {
        name: posted.fields.get("name").to_owned(),
        path: posted.fields.some("path"),
    };
    let admin = posted.user.admin(&app);
    let made: GroupInfo = admin.send(Method::POST, "/v1/groups", &ask).await?;
    Ok(see(&path(&["groups", &made.name])))
}

/// Shows a group.
pub async fn show(State(app): State<App>, user: User, Path(name): Path<String>) -> Shown {
    let of_api = path(&["v1", "groups", &name]);
    let group: GroupInfo = user.admin(&app).get(&of_api).await?;
    Ok(html(&GroupPage {
        frame: Frame::new(&user, "users"),
        base: path(&["groups", &name]),
        users: links("users", &group.users),
        held: Held::new("groups", &name, &group.policies, &group.inline_policies),
        group,
    }))
}

/// Changes or deletes a group: the form says what.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (admin, fields) = (posted.user.admin(&app), &posted.fields);
    if let Some(done) = held::change(&admin, "groups", &name, fields).await? {
        return Ok(done);
    }
    let of_api = path(&["v1", "groups", &name]);
    let here = path(&["groups", &name]);
    let users = fields.words("users");
    let mut ask = ChangeGroup::default();
    match fields.get("change") {
        "add" => ask.add_users = users,
        "remove" => ask.remove_users = users,
        other => return Err(Fault::unknown_change(other)),
    }
    let _: GroupInfo = admin.send(Method::PATCH, &of_api, &ask).await?;
    Ok(see(&here))
}
