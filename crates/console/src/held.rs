//! The policies of users, groups and roles, and forms with a policy's text.

use archipel_api::admin::types::{HolderKind, PolicyDocument};
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::App;
use crate::backend::{Backend, Seen, path};
use crate::fault::{CHANGED, Fault};
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Fields, Posted, SHOWN_FIELD, User, mark};

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
///
/// A form of a page that is not true any more could never be saved. Its text is shown to be copied.
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
    /// The page of the form.
    back: Link,
    can_delete: bool,
    is_late: bool,
}

impl DocumentPage {
    /// Returns true for a field that no person fills.
    fn is_hidden(&self, field: &str) -> bool {
        ["change", SHOWN_FIELD, "o", "k"].contains(&field)
    }

    fn label(&self) -> &'static str {
        match self.name {
            "text" => "Document",
            "tags" => "Tags, a line for each: NAME=VALUE",
            _ => "Policy, in AWS's JSON",
        }
    }

    /// Returns true if a form without a text makes no sense.
    fn is_required(&self) -> bool {
        !["text", "tags"].contains(&self.name)
    }
}

/// Returns the form again, with the reason why it was refused and with the text that was typed. `name`
/// is the field that has the text, and `back` the page of the form.
pub fn again(posted: &Posted, name: &'static str, action: &str, back: &str, fault: Fault) -> Shown {
    if fault.status.is_server_error() || fault.status == StatusCode::UNAUTHORIZED {
        return Err(fault);
    }
    let is_late = fault.code == CHANGED && posted.fields.some(SHOWN_FIELD).is_some();
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
        is_late,
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
        fields: vec![(SHOWN_FIELD.to_owned(), mark(&found.document))],
        name: "document",
        text: found.document,
        back: Link {
            href: path(&[kind, &name]),
            text: name,
        },
        title: policy,
        can_delete: true,
        is_late: false,
    }))
}

/// Adds an inline policy. One that is there already stays as it is.
pub async fn add_inline(
    State(app): State<App>,
    Path((kind, name)): Path<(HolderKind, String)>,
    posted: Posted,
) -> Shown {
    let kind = kind.name();
    let policy = posted.fields.get("policy");
    let (back, action) = (path(&[kind, &name]), path(&["inline", kind, &name]));
    let of_api = path(&["v1", "inline-policies", kind, &name, policy]);
    match put(&app, &posted, &of_api, &Seen::default()).await {
        Ok(()) => Ok(see(&back)),
        Err(fault) => again(&posted, "document", &action, &back, fault),
    }
}

/// Replaces or deletes an inline policy: the form says what.
pub async fn change_inline(
    State(app): State<App>,
    Path((kind, name, policy)): Path<(HolderKind, String, String)>,
    posted: Posted,
) -> Shown {
    let kind = kind.name();
    let (back, action) = (
        path(&[kind, &name]),
        path(&["inline", kind, &name, &policy]),
    );
    let of_api = path(&["v1", "inline-policies", kind, &name, &policy]);
    let admin = posted.user.admin(&app);
    let seen = async {
        let (now, seen): (PolicyDocument, Seen) = admin.get_seen(&of_api).await?;
        posted.fields.check_shown(&now.document)?;
        Ok::<Seen, Fault>(seen)
    };
    if posted.fields.get("change") == "delete" {
        admin.delete_if(&of_api, &seen.await?).await?;
        return Ok(see(&back));
    }
    let done = match seen.await {
        Ok(seen) => put(&app, &posted, &of_api, &seen).await,
        Err(fault) => Err(fault),
    };
    match done {
        Ok(()) => Ok(see(&back)),
        Err(fault) => again(&posted, "document", &action, &action, fault),
    }
}

/// Sets the policy of a form, if the one so far is the one that was seen.
async fn put(app: &App, posted: &Posted, of_api: &str, seen: &Seen) -> Result<(), Fault> {
    let ask = PolicyDocument {
        document: posted.fields.text("document"),
    };
    let put = posted.user.admin(app);
    let put = put.put_if::<PolicyDocument>(of_api, &ask, seen);
    put.await.map(drop)
}
