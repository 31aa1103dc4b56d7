//! The layout: what is in force, what is staged and what it would do, and its progress.

use archipel_api::admin::types::{
    Apply, Assign, LayoutInfo, LayoutNode, NodeInfo, ProgressInfo, Redundancy, Stage, StagedNode,
};
use askama::Template;
use axum::extract::State;
use http::Method;

use crate::App;
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Fields, Posted, User};
use crate::show;

#[derive(Template)]
#[template(path = "layout.html")]
struct LayoutPage {
    frame: Frame,
    layout: LayoutInfo,
    /// Nodes that are known and hold nothing yet.
    others: Vec<NodeInfo>,
    progress: Progress,
}

/// The part that is fetched again and again while data moves.
#[derive(Template)]
#[template(path = "layout_progress.html")]
struct Progress(Option<ProgressInfo>);

impl LayoutPage {
    fn capacity(&self, bytes: u64) -> String {
        match bytes {
            0 => "gateway".into(),
            bytes => show::bytes(bytes),
        }
    }

    fn reported(&self, node: &NodeInfo) -> String {
        node.capacity_bytes.map_or(String::new(), show::bytes)
    }

    fn share(&self, node: &LayoutNode) -> u64 {
        (node.share * 100.0).round() as u64
    }

    fn role(&self, node: &StagedNode) -> String {
        match &node.role {
            Some(role) => format!("zone {}, {}", role.zone, self.capacity(role.capacity_bytes)),
            None => "leaves".into(),
        }
    }
}

impl Progress {
    fn percent(&self, progress: &ProgressInfo) -> u64 {
        show::percent(progress.done.into(), progress.partitions.into())
    }

    fn rows(&self, progress: &ProgressInfo) -> String {
        show::count(progress.rows)
    }
}

/// Shows the layout.
pub async fn show(State(app): State<App>, user: User) -> Shown {
    let admin = user.admin(&app);
    let mut layout: LayoutInfo = admin.get("/v1/layout").await?;
    let known: Vec<NodeInfo> = admin.list("/v1/nodes").await?;
    let is_new = |node: &NodeInfo| layout.nodes.iter().all(|there| there.id != node.id);
    Ok(html(&LayoutPage {
        frame: Frame::new(&user, "layout"),
        others: known.into_iter().filter(is_new).collect(),
        progress: Progress(layout.progress.take()),
        layout,
    }))
}

/// Shows the progress of a change.
pub async fn live(State(app): State<App>, user: User) -> Shown {
    let layout: LayoutInfo = user.admin(&app).get("/v1/layout").await?;
    Ok(html(&Progress(layout.progress)))
}

/// Stages, discards or applies changes: the form says what.
pub async fn change(State(app): State<App>, posted: Posted) -> Shown {
    let (admin, fields) = (posted.user.admin(&app), &posted.fields);
    let stage = match fields.get("change") {
        "assign" => Stage {
            assign: vec![Assign {
                node: fields.get("node").to_owned(),
                zone: fields.some("zone"),
                capacity_bytes: fields.some("capacity").map(|c| size(&c)).transpose()?,
            }],
            ..Stage::default()
        },
        "remove" => Stage {
            remove: vec![fields.get("node").to_owned()],
            ..Stage::default()
        },
        "redundancy" => Stage {
            redundancy: Some(Redundancy {
                replicas: number(fields, "replicas")?,
                zones: match fields.get("zones") {
                    "" => None,
                    _ => Some(number(fields, "zones")?),
                },
            }),
            ..Stage::default()
        },
        "discard" => {
            admin.delete("/v1/layout/staged").await?;
            return Ok(see("/layout"));
        }
        "apply" => {
            let ask = Apply {
                version: number(fields, "version")?,
                revision: Some(number(fields, "revision")?),
            };
            let _: LayoutInfo = admin.send(Method::POST, "/v1/layout/apply", &ask).await?;
            return Ok(see("/layout"));
        }
        other => return Err(Fault::unknown_change(other)),
    };
    let _: LayoutInfo = admin.send(Method::POST, "/v1/layout/stage", &stage).await?;
    Ok(see("/layout"))
}

fn number<T: std::str::FromStr>(fields: &Fields, name: &str) -> Result<T, Fault> {
    let text = fields.get(name);
    let number = text.parse();
    number.map_err(|_| Fault::invalid(format!("{name}: {text:?} is no number")))
}

/// Reads a size such as `500GiB`.
fn size(text: &str) -> Result<u64, Fault> {
    show::parse_bytes(text).ok_or_else(|| {
        let why = "is no size: write for example 500GiB, or 0 for a gateway";
        Fault::invalid(format!("{text:?} {why}"))
    })
}
