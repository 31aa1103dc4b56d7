//! Managed policies: list, create, show, replace, delete.

use archipel_api::admin::types::{CreatePolicy, PolicyDocument, PolicyInfo};
use askama::Template;
use axum::extract::{Path, Query, State};
use http::Method;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::held::{self, Link, links};
use crate::lists::Place;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User, mark};
use crate::show;

#[derive(Template)]
#[template(path = "policies.html")]
struct PoliciesPage {
    frame: Frame,
    is_first: bool,
    policies: Vec<PolicyInfo>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "policy.html")]
struct PolicyPage {
    frame: Frame,
    base: String,
    holders: Vec<(&'static str, Vec<Link>)>,
    policy: PolicyInfo,
}

impl PoliciesPage {
    /// Returns the link to a policy, by its ARN. Two policies may have one name: one here, one that
    /// every cluster has.
    fn link(&self, policy: &PolicyInfo) -> String {
        path(&["policies", &policy.arn])
    }

    /// Returns how many have a policy; nothing if that is not known.
    fn holders(&self, policy: &PolicyInfo) -> String {
        let count = policy.holders();
        count.map_or_else(String::new, |count| count.to_string())
    }
}

impl PolicyPage {
    fn changed(&self) -> String {
        show::time(self.policy.changed_ms)
    }

    /// Returns the mark of the document as the form shows it.
    fn shown(&self) -> String {
        mark(&self.policy.document)
    }
}

/// Shows a page of the list.
pub async fn list(State(app): State<App>, user: User, Query(place): Query<Place>) -> Shown {
    let page = user
        .admin(&app)
        .page("/policies", &[], &place.after)
        .await?;
    Ok(html(&PoliciesPage {
        frame: Frame::new(&user, "users"),
        is_first: page.is_first,
        policies: page.items,
        next: page.next,
    }))
}

/// Creates a policy.
pub async fn create(State(app): State<App>, posted: Posted) -> Shown {
    let fields = &posted.fields;
    let ask = CreatePolicy {
        name: fields.get("name").to_owned(),
        path: None,
        description: fields.get("description").to_owned(),
        document: fields.text("document"),
    };
    let admin = posted.user.admin(&app);
    let made = admin.send::<PolicyInfo>(Method::POST, "/v1/policies", &ask);
    match made.await {
        Ok(made) => Ok(see(&path(&["policies", &made.arn]))),
        Err(fault) => held::again(&posted, "document", "/policies", "/policies", fault),
    }
}

/// Shows a policy.
pub async fn show(State(app): State<App>, user: User, Path(name): Path<String>) -> Shown {
    let of_api = path(&["v1", "policies", &name]);
    let policy: PolicyInfo = user.admin(&app).get(&of_api).await?;
    Ok(html(&PolicyPage {
        frame: Frame::new(&user, "users"),
        base: path(&["policies", &name]),
        holders: [
            ("Users", "users", &policy.users),
            ("Groups", "groups", &policy.groups),
            ("Roles", "roles", &policy.roles),
        ]
        .into_iter()
        .filter_map(|(title, kind, names)| Some((title, links(kind, names.as_deref()?))))
        .collect(),
        policy,
    }))
}

/// Replaces or deletes a policy: the form says what.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let admin = posted.user.admin(&app);
    let of_api = path(&["v1", "policies", &name]);
    let here = path(&["policies", &name]);
    match posted.fields.get("change") {
        "delete" => {
            admin.delete(&of_api).await?;
            Ok(see("/policies"))
        }
        "set" => {
            let ask = PolicyDocument {
                document: posted.fields.text("document"),
            };
            let set = async {
                let (now, seen) = admin.get_seen::<PolicyInfo>(&of_api).await?;
                posted.fields.check_shown(&now.document)?;
                admin.put_if::<PolicyInfo>(&of_api, &ask, &seen).await
            };
            match set.await {
                Ok(_) => Ok(see(&here)),
                Err(fault) => held::again(&posted, "document", &here, &here, fault),
            }
        }
        other => Err(Fault::unknown_change(other)),
    }
}
