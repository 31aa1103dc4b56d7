//! Versions: what writes and deletions replaced. Download, restore, delete and protect them.

use archipel_api::admin::types::{BucketLockInfo, BucketVersioning, VersioningState};
use askama::Template;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use crate::App;
use crate::backend::{encode, path, query};
use crate::fault::Fault;
use crate::folders::{about, below, crumbs, folder_of};
use crate::objects::{Which, store_of};
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;
use crate::store::versions::{Entry, Protection, Versions};

/// Versions on a page.
const PAGE_ITEMS: usize = 100;

/// The version after which a page begins; none for the first page.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct After {
    key: String,
    version: String,
}

#[derive(Template)]
#[template(path = "versions.html")]
struct VersionsPage {
    frame: Frame,
    base: String,
    bucket: String,
    versioning: VersioningState,
    k: String,
    prefix: String,
    is_first: bool,
    content: Result<Versions, Fault>,
}

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    frame: Frame,
    base: String,
    bucket: String,
    k: String,
    key: String,
    versions: Vec<Entry>,
    /// The version after which this page begins; empty for the first page.
    after: String,
    /// The version after which the next page begins.
    next: Option<String>,
    has_lock: bool,
    /// The version that is shown in detail.
    chosen: Option<(Entry, Protection)>,
}

/// Shows all versions in a folder, also those of deleted objects.
pub async fn list(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    Query(after): Query<After>,
) -> Shown {
    let of_api = path(&["v1", "buckets", &name, "versioning"]);
    let versioning: BucketVersioning = user.admin(&app).get(&of_api).await?;
    let versioning = versioning.state;
    let content = async {
        let (_, store) = store_of(&app, &user, &name, &which.k).await?;
        let from = (after.key.as_str(), after.version.as_str());
        store.versions(&which.prefix, true, from, PAGE_ITEMS).await
    };
    Ok(html(&VersionsPage {
        frame: Frame::new(&user, "buckets"),
        base: path(&["buckets", &name]),
        content: content.await,
        bucket: name,
        versioning,
        k: which.k,
        prefix: which.prefix,
        is_first: after.key.is_empty(),
    }))
}

/// Shows the versions of an object, and one of them in detail.
pub async fn show(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    Query(after): Query<After>,
) -> Shown {
    let of_api = path(&["v1", "buckets", &name, "lock"]);
    let lock: BucketLockInfo = user.admin(&app).get(&of_api).await?;
    let has_lock = lock.enabled;
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    let key = which.o;
    if key.is_empty() {
        return Err(Fault::no_object());
    }
    // The versions of this key come first; those of longer keys follow.
    let from = match after.version.is_empty() {
        true => ("", ""),
        false => (key.as_str(), after.version.as_str()),
    };
    let page = store.versions(&key, false, from, PAGE_ITEMS).await?;
    let is_more = page.next_key.as_ref() == Some(&key);
    let next = page.next_version.filter(|_| is_more);
    let versions = page.versions.into_iter().filter(|v| v.key == key);
    let versions: Vec<Entry> = versions.collect();
    let chosen = versions.iter().find(|v| v.id == which.v);
    let chosen = match chosen.filter(|v| !v.is_marker) {
        Some(version) => {
            let protection = store.protection(&key, &version.id).await?;
            Some((version.clone(), protection))
        }
        None => None,
    };
    Ok(html(&HistoryPage {
        frame: Frame::new(&user, "buckets"),
        base: path(&["buckets", &name]),
        bucket: name,
        k: which.k,
        key,
        versions,
        after: after.version,
        next,
        has_lock,
        chosen,
    }))
}

/// Changes a version: the form says which one, and the change.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (user, fields) = (&posted.user, &posted.fields);
    let key = fields.key("o")?;
    let (key, id, k) = (key.as_str(), fields.get("v"), fields.get("k"));
    if key.is_empty() || id.is_empty() {
        return Err(Fault::invalid("the form names no version"));
    }
    let (_, store) = store_of(&app, user, &name, k).await?;
    let bypass = fields.is_checked("bypass");
    let (mut shown, mut after) = (id, fields.get("version"));
    match fields.get("change") {
        "restore" => {
            store.restore(key, id).await?;
            // The copy is on the first page.
            (shown, after) = ("", "");
        }
        "delete" => {
            store.delete_version(key, id, bypass).await?;
            shown = "";
        }
        "retain" => {
            let asked = (fields.get("mode"), fields.get("day"));
            if asked.0 == "COMPLIANCE" {
                fields.check_sure()?;
            }
            store.retain(key, id, asked, bypass).await?;
        }
        "hold" => store.hold(key, id, true).await?,
        "release" => store.hold(key, id, false).await?,
        other => return Err(Fault::unknown_change(other)),
    }
    let here = query(&[("o", key), ("k", k), ("v", shown), ("version", after)]);
    let base = path(&["buckets", &name]);
    Ok(see(&format!("{base}/history{here}")))
}

impl VersionsPage {
    fn crumbs(&self) -> Vec<(String, String)> {
        crumbs(&self.bucket, &self.prefix, |prefix| self.folder(prefix))
    }

    fn folder(&self, prefix: &str) -> String {
        let query = query(&[("prefix", prefix), ("k", &self.k)]);
        format!("{}/versions{query}", self.base)
    }

    fn below<'a>(&self, key: &'a str) -> &'a str {
        below(&self.prefix, key)
    }

    fn history(&self, entry: &Entry) -> String {
        about(&self.base, "history", &entry.key, &self.k)
    }

    fn next(&self, listing: &Versions) -> Option<String> {
        let query = query(&[
            ("prefix", &self.prefix),
            ("k", &self.k),
            ("key", listing.next_key.as_deref()?),
            (
                "version",
                listing.next_version.as_deref().unwrap_or_default(),
            ),
        ]);
        Some(format!("{}/versions{query}", self.base))
    }

    fn remark(&self) -> &'static str {
        match self.versioning {
            VersioningState::Enabled => "Writes and deletions keep what they replace.",
            VersioningState::Suspended => {
                "Versioning is suspended: writes and deletions keep older versions, and make no new ones."
            }
            VersioningState::Never => {
                "This bucket keeps no versions: what is overwritten or deleted is gone. The settings change that."
            }
        }
    }
}

impl HistoryPage {
    fn folder(&self) -> String {
        let query = query(&[("prefix", folder_of(&self.key)), ("k", &self.k)]);
        format!("{}/versions{query}", self.base)
    }

    fn to(&self, what: &str, entry: &Entry) -> String {
        let query = query(&[
            ("o", &self.key),
            ("k", &self.k),
            ("v", &entry.id),
            // The version is on this page.
            ("version", &self.after),
        ]);
        format!("{}/{what}{query}", self.base)
    }

    /// Returns the key as forms carry it.
    fn field(&self) -> String {
        encode(&self.key)
    }

    /// Returns the link to the first page.
    fn first(&self) -> String {
        about(&self.base, "history", &self.key, &self.k)
    }

    fn next(&self) -> Option<String> {
        let version = self.next.as_deref()?;
        let query = query(&[("o", &self.key), ("k", &self.k), ("version", version)]);
        Some(format!("{}/history{query}", self.base))
    }

    /// Returns the link to the object's own page, if the object is there.
    fn object(&self) -> Option<String> {
        let current = self
            .versions
            .first()
            .filter(|v| v.is_latest && !v.is_marker);
        current.map(|_| about(&self.base, "object", &self.key, &self.k))
    }
}

impl Protection {
    /// Describes the protection, for people.
    fn text(&self) -> String {
        let mode = self.mode.to_lowercase();
        match self.mode.is_empty() {
            true => "no retention".into(),
            false => format!("{mode} until {}", show::iso(&self.until)),
        }
    }

    /// Returns the last day of the retention, as forms write it.
    fn day(&self) -> &str {
        self.until.split('T').next().unwrap_or_default()
    }
}

impl Entry {
    /// Returns the size, for people.
    fn size_text(&self) -> String {
        match self.is_marker {
            true => "–".into(),
            false => show::bytes(self.size),
        }
    }

    fn time(&self) -> String {
        show::iso(&self.modified)
    }

    /// Returns the state of the version, for people.
    fn what(&self) -> &'static str {
        match (self.is_marker, self.is_latest) {
            (true, true) => "deleted",
            (true, false) => "delete marker",
            (false, true) => "current",
            (false, false) => "older",
        }
    }

    fn tone(&self) -> &'static str {
        match (self.is_marker, self.is_latest) {
            (true, _) => "bad",
            (false, true) => "good",
            (false, false) => "idle",
        }
    }
}
