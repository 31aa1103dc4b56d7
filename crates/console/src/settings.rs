//! A bucket's settings: names, permissions, public access, website, incomplete uploads.

use archipel_api::admin::types::{
    AbortUploads, AbortedUploads, AddAlias, BucketInfo, ChangeGrant, KeyInfo, Page, SetWebsite,
    UploadInfo, WebsiteInfo,
};
use askama::Template;
use axum::extract::{Path, State};
use http::{Method, StatusCode};
use serde_json::Value;

use crate::App;
use crate::backend::{path, query};
use crate::buckets::offered_keys;
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

/// The uploads that the page shows.
const SHOWN_UPLOADS: usize = 20;

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    bucket: BucketInfo,
    base: String,
    website: Option<WebsiteInfo>,
    uploads: Page<UploadInfo>,
    keys: Vec<KeyInfo>,
}

impl SettingsPage {
    fn created(&self) -> String {
        show::time(self.bucket.created_ms)
    }

    fn content(&self) -> String {
        let bytes = show::bytes(self.bucket.bytes);
        format!("{} objects, {bytes}", show::count(self.bucket.objects))
    }

    fn since(&self, upload: &UploadInfo) -> String {
        show::time(upload.initiated_ms)
    }
}

/// Shows the settings.
pub async fn show(State(app): State<App>, user: User, Path(name): Path<String>) -> Shown {
    let admin = user.admin(&app);
    let of_api = path(&["v1", "buckets", &name]);
    let bucket: BucketInfo = admin.get(&of_api).await?;
    let website = admin.get(&format!("{of_api}/website")).await;
    let website = match website {
        Ok(website) => Some(website),
        Err(fault) if fault.status == StatusCode::NOT_FOUND => None,
        Err(fault) => return Err(fault),
    };
    let uploads = format!("{of_api}/uploads?limit={SHOWN_UPLOADS}");
    Ok(html(&SettingsPage {
        frame: Frame::new(&user, "buckets"),
        base: path(&["buckets", &name]),
        website,
        uploads: admin.get(&uploads).await?,
        keys: offered_keys(&app, &user).await,
        bucket,
    }))
}

/// Changes a setting: the form says which.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (admin, fields) = (posted.user.admin(&app), &posted.fields);
    let of_api = path(&["v1", "buckets", &name]);
    let below = |part: &str| format!("{of_api}/{part}");
    let named = |part: &str, name: &str| format!("{of_api}{}", path(&[part, name]));
    match fields.get("change") {
        "add-alias" => {
            let ask = AddAlias {
                name: fields.get("alias").to_owned(),
                key: fields.some("key"),
            };
            let at = below("aliases");
            let _: Value = admin.send(Method::POST, &at, &ask).await?;
        }
        "remove-alias" => {
            let key = query(&[("key", fields.get("key"))]);
            let alias = named("aliases", fields.get("alias"));
            admin.delete(&format!("{alias}{key}")).await?;
        }
        change @ ("grant" | "give") => {
            // To give permissions takes none away.
            let asked = |name: &str| {
                let is_checked = fields.is_checked(name);
                Some(is_checked).filter(|_| is_checked || change == "grant")
            };
            let ask = ChangeGrant {
                read: asked("read"),
                write: asked("write"),
                owner: asked("owner"),
            };
            let at = named("grants", fields.get("key"));
            let _: Value = admin.send(Method::PATCH, &at, &ask).await?;
        }
        "publish" => {
            let at = below("public");
            let _: Value = admin.send(Method::PUT, &at, &Value::Null).await?;
        }
        "unpublish" => admin.delete(&below("public")).await?,
        "website" => {
            let ask = SetWebsite {
                index: Some(fields.get("index").to_owned()),
                error: fields.some("error"),
                ..SetWebsite::default()
            };
            let at = below("website");
            let _: Value = admin.send(Method::PUT, &at, &ask).await?;
        }
        "no-website" => admin.delete(&below("website")).await?,
        "abort-uploads" => {
            let ask = AbortUploads {
                older_than_seconds: 24 * 3600,
                dry_run: false,
            };
            let at = below("uploads/abort");
            let _: AbortedUploads = admin.send(Method::POST, &at, &ask).await?;
        }
        other => return Err(Fault::unknown_change(other)),
    }
    Ok(see(&format!("{}/settings", path(&["buckets", &name]))))
}
