//! The policies of users, groups and roles, and forms with a policy's text.

use archipel_api::admin::types::{HolderKind, PolicyDocument};
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::App;
use crate::backend::{Backend, path};
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Fields, Posted, User};

/// A link of a page.
pub struct Link {
    pub href: String,
    pub text: String,
}

/// Returns links to the pages of users, groups, roles or policies.
pub fn links(kind: &str, names: &[String]) -> Vec<Link> {
    let link = |name: &String| Link {
        href: path(&[kind, name]),
        text: name.clone(),
    };
    names.iter().map(link).collect()
}

/// The policies of a user, group or role.
pub struct Held {
    /// The path of the page of the user, group or role.
    pub base: String,
    /// The managed policies: their ARNs.
    pub attached: Vec<Link>,
    /// The policies that only it has.
    pub inline: Vec<Link>,
    /// The path that takes a new policy that only it has.
    pub new_inline: String,
}

impl Held {
    /// Returns the policies of one of `kind`: `users`, `groups` or `roles`.
    pub fn new(kind: &str, name: &str, attached: &[String], inline: &[String]) -> Held {
        let link = |policy: &String| Link {
            href: path(&["inline", kind, name, policy]),
            text: policy.clone(),
        };
        Held {
            base: path(&[kind, name]),
            attached: links("policies", attached),
            inline: inline.iter().map(link).collect(),
            new_inline: path(&["inline", kind, name]),
        }
    }
}

/// Makes a change that users, groups and roles have in common: attaches or detaches a policy, or deletes
/// one of `kind`. Returns the page to see then; `None` for another change.
///
/// # Errors
/// The API refuses the change.
pub async fn change(
    admin: &Backend<'_>,
    kind: &str,
    name: &str,
    fields: &Fields,
) -> Result<Option<Response<Body>>, Fault> {
    let of_api = path(&["v1", kind, name]);
    match fields.get("change") {
        change @ ("attach" | "detach") => {
            let ask = json!({ change: [fields.get("policy")] });
            let _: Value = admin.send(Method::PATCH, &of_api, &ask).await?;
            Ok(Some(see(&path(&[kind, name]))))
        }
        "delete" => {
            admin.delete(&of_api).await?;
            Ok(Some(see(&path(&[kind]))))
        }
        _ => Ok(None),
    }
}

/// A form that was refused, to be corrected and sent again; or the text of an inline policy.
#[derive(Template)]
#[template(path = "document.html")]
struct DocumentPage {
    frame: Frame,
    title: String,
    /// The reason why the form was refused.
    error: Option<String>,
    action: String,
    /// The other fields.
    fields: Vec<(String, String)>,
    /// The name of the field that has the text.
    name: &'static str,
    text: String,
    back: Link,
    can_delete: bool,
}

/// Returns the form again, with the reason why it was refused and with the text that was typed. `name`
/// is the field that has the policy.
pub fn again(posted: &Posted, name: &'static str, action: &str, back: &str, fault: Fault) -> Shown {
    if fault.status.is_server_error() || fault.status == StatusCode::UNAUTHORIZED {
        return Err(fault);
    }
    let others = posted.fields.pairs();
    let others = others.filter(|(field, _)| *field != name && *field != "csrf");
    let mut page = html(&DocumentPage {
        frame: Frame::new(&posted.user, "users"),
        title: "That did not work".to_owned(),
        error: Some(fault.detail),
        action: action.to_owned(),
        fields: others
            .map(|(field, value)| (field.to_owned(), value.to_owned()))
            .collect(),
        name,
        text: posted.fields.get(name).to_owned(),
        back: Link {
            href: back.to_owned(),
            text: "Back".to_owned(),
        },
        can_delete: false,
    });
    *page.status_mut() = fault.status;
    Ok(page)
}

/// Shows an inline policy as it was given.
pub async fn show_inline(
    State(app): State<App>,
    user: User,
    Path((kind, name, policy)): Path<(HolderKind, String, String)>,
) -> Shown {
    let kind = kind.name();
    let of_api = path(&["v1", "inline-policies", kind, &name, &policy]);
    let found: PolicyDocument = user.admin(&app).get(&of_api).await?;
    Ok(html(&DocumentPage {
        frame: Frame::new(&user, "users"),
        error: None,
        action: path(&["inline", kind, &name, &policy]),
        fields: Vec::new(),
        name: "document",
        text: found.document,
        back: Link {
            href: path(&[kind, &name]),
            text: name,
        },
        title: policy,
        can_delete: true,
    }))
}

/// Adds an inline policy.
pub async fn add_inline(
    State(app): State<App>,
    Path((kind, name)): Path<(HolderKind, String)>,
    posted: Posted,
) -> Shown {
    let policy = posted.fields.get("policy").to_owned();
    set(&app, [kind.name(), &name, &policy], &posted).await
}

/// Replaces or deletes an inline policy: the form says what.
pub async fn change_inline(
    State(app): State<App>,
    Path((kind, name, policy)): Path<(HolderKind, String, String)>,
    posted: Posted,
) -> Shown {
    let kind = kind.name();
    if posted.fields.get("change") == "delete" {
        let of_api = path(&["v1", "inline-policies", kind, &name, &policy]);
        posted.user.admin(&app).delete(&of_api).await?;
        return Ok(see(&path(&[kind, &name])));
    }
    set(&app, [kind, &name, &policy], &posted).await
}

async fn set(app: &App, [kind, name, policy]: [&str; 3], posted: &Posted) -> Shown {
    let (back, action) = (path(&[kind, name]), path(&["inline", kind, name]));
    let (of_api, ask) = (
        path(&["v1", "inline-policies", kind, name, policy]),
        PolicyDocument {
            document: posted.fields.text("document"),
        },
    );
    let admin = posted.user.admin(app);
    let done = admin
        .send::<PolicyDocument>(Method::PUT, &of_api, &ask)
        .await;
    match done {
        Ok(_) => Ok(see(&back)),
        // The path of a policy that exists names it; a new one has a field for it.
        Err(fault) if posted.fields.get("policy").is_empty() => {
            let action = path(&["inline", kind, name, policy]);
            again(posted, "document", &action, &back, fault)
        }
        Err(fault) => again(posted, "document", &action, &back, fault),
    }
}
