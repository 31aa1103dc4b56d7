//! Live charts of the node, from its own metrics, and the work that can be started.

use archipel_api::admin::types::{
    RepairBlocks, RepairInfo, SnapshotInfo, StartScrub, StartVerify, Upkeep, VerifyInfo,
};
use askama::Template;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderValue, Method, header};
use serde::Serialize;
use serde_json::Value;

use crate::App;
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage {
    frame: Frame,
    verified: Result<VerifyInfo, Fault>,
}

/// Counters since the start of the node. The script makes rates of them.
#[derive(Serialize, Default, PartialEq, Debug)]
struct Counters {
    requests: f64,
    errors: f64,
    received: f64,
    sent: f64,
    /// Seconds of all requests together, until their answers begin.
    seconds: f64,
}

impl ActivityPage {
    fn verified(&self, info: &VerifyInfo) -> String {
        match (info.began_ms, info.ended_ms) {
            (0, _) => "No verification was started here yet.".into(),
            (began, 0) => format!("A verification has run since {}.", show::time(began)),
            (_, ended) => {
                let problems = info.problems();
                let at = show::time(ended);
                format!("The last verification ended {at} and found {problems} problems.")
            }
        }
    }

    fn problems(&self, info: &VerifyInfo) -> Vec<String> {
        let told = info.nodes.iter().flat_map(|node| node.told.iter().cloned());
        told.chain(info.unchecked()).collect()
    }
}

/// Shows the page.
pub async fn show(State(app): State<App>, user: User) -> Shown {
    let verified = match user.admin(&app).get("/v1/verify").await {
        Err(fault) if fault.status == http::StatusCode::UNAUTHORIZED => return Err(fault),
        verified => verified,
    };
    Ok(html(&ActivityPage {
        frame: Frame::new(&user, "activity"),
        verified,
    }))
}

/// Returns the counters as JSON.
pub async fn data(State(app): State<App>, user: User) -> Shown {
    let text = user.admin(&app).text("/metrics").await?;
    let body = serde_json::to_vec(&counters(&text)).map_err(|error| Fault::internal(&error))?;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Starts or ends work: the form says what.
pub async fn change(State(app): State<App>, posted: Posted) -> Shown {
    let admin = posted.user.admin(&app);
    let start = Method::POST;
    match posted.fields.get("change") {
        "verify" => {
            let deep = posted.fields.is_checked("deep");
            let ask = StartVerify { deep };
            let _: VerifyInfo = admin.send(start, "/v1/verify", &ask).await?;
        }
        "scrub" => {
            let ask = StartScrub::default();
            let _: Upkeep = admin.send(start, "/v1/scrub/start", &ask).await?;
        }
        "stop-scrub" => {
            let _: Upkeep = admin.send(start, "/v1/scrub/stop", &Value::Null).await?;
        }
        "repair" => {
            let ask = RepairBlocks::default();
            let _: RepairInfo = admin.send(start, "/v1/repair/blocks", &ask).await?;
        }
        "snapshot" => {
            let _: SnapshotInfo = admin.send(start, "/v1/snapshots", &Value::Null).await?;
        }
        other => return Err(Fault::invalid(format!("there is no work {other:?}"))),
    }
    Ok(see("/activity"))
}

/// Adds the series of S3 up.
fn counters(metrics: &str) -> Counters {
    let mut sum = Counters::default();
    for line in metrics.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let Ok(value) = value.parse::<f64>() else {
            continue;
        };
        match name {
            "archipel_s3_requests_total" => {
                sum.requests += value;
                if labels.contains("status=\"5") {
                    sum.errors += value;
                }
            }
            "archipel_s3_received_bytes_total" => sum.received += value,
            "archipel_s3_sent_bytes_total" => sum.sent += value,
            "archipel_s3_request_seconds_sum" => sum.seconds += value,
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_up() {
        let text = "# TYPE archipel_s3_requests counter\n\
            archipel_s3_requests_total{operation=\"GetObject\",status=\"200\"} 7\n\
            archipel_s3_requests_total{operation=\"a 5\",status=\"503\"} 2\n\
            archipel_s3_received_bytes_total 10\n\
            archipel_s3_sent_bytes_total 20\n\
            archipel_s3_request_seconds_sum{operation=\"GetObject\"} 0.5\n\
            archipel_s3_request_seconds_bucket{le=\"1.0\",operation=\"GetObject\"} 9\n\
            # EOF\n";
        let expected = Counters {
            requests: 9.0,
            errors: 2.0,
            received: 10.0,
            sent: 20.0,
            seconds: 0.5,
        };
        assert_eq!(counters(text), expected);
    }
}
