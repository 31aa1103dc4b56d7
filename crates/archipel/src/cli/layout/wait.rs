//! Waiting for the end of a layout change.

use archipel_api::admin::types::{LayoutInfo, ProgressInfo};

use super::show;
use crate::cli::progress::{HeldUp, LOOK, PATIENCE_WITH_DATA, Progress, attended, bar, suffix};
use crate::cli::table::count;
use crate::cli::target::Target;
use crate::client::{Client, Failure};

/// The message to a person who ends the wait.
const GOES_ON: &str = "data moves on in the background: archipel layout show shows how far it is, and archipel layout wait waits again";

/// Waits until the data has moved to the newest layout version, and shows the layout. Fails if nothing
/// moves for long because of a trouble.
pub async fn moved(target: &Target, client: &Client) -> Result<(), Failure> {
    let layout = attended(GOES_ON, follow(client)).await?;
    show(target, &layout)?;
    let trouble = layout.progress.and_then(|progress| progress.trouble);
    trouble.map_or(Ok(()), |why| {
        let minutes = PATIENCE_WITH_DATA.as_secs() / 60;
        Err(Failure::new(format!(
            "nothing was seen to go on for {minutes} minutes: {why}; the change goes on by itself once that is over, and archipel layout wait \
             waits for it"
        )))
    })
}

/// Returns the layout once no data moves any more, or once nothing has moved for long.
async fn follow(client: &Client) -> Result<LayoutInfo, Failure> {
    let (mut display, mut held_up, mut before) = (Progress::new(), HeldUp::default(), None);
    loop {
        let layout: LayoutInfo = client.get("/v1/layout").await?;
        let Some(progress) = &layout.progress else {
            return Ok(layout);
        };
        if held_up.note(is_held_up(progress, before), PATIENCE_WITH_DATA) {
            return Ok(layout);
        }
        before = Some(far(progress));
        display.show(&moving_line(progress));
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns how far a change is: the partitions that are done, and the rows that were looked at.
fn far(progress: &ProgressInfo) -> (u32, u64) {
    (progress.done, progress.rows)
}

/// Returns true if a change has a trouble and is no further than `before`. One partition may move
/// while another cannot.
fn is_held_up(progress: &ProgressInfo, before: Option<(u32, u64)>) -> bool {
    progress.trouble.is_some() && before == Some(far(progress))
}

/// Describes a change that is waited for in a line.
fn moving_line(progress: &ProgressInfo) -> String {
    let done = bar(progress.done.into(), progress.partitions.into());
    let (version, rows) = (progress.to_version, count(progress.rows, "row"));
    let trouble = suffix(progress.trouble.as_deref());
    format!("layout {version} {done} {rows}{trouble}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_held_up_by_a_trouble_while_nothing_moves() {
        let progress = ProgressInfo {
            from_version: 4,
            to_version: 5,
            partitions: 512,
            done: 12,
            rows: 3400,
            trouble: None,
            driver: "aaaaaaaa".repeat(8),
        };
        let blocked = ProgressInfo {
            trouble: Some("node 0badcafe does not answer".into()),
            ..progress.clone()
        };
        assert!(!is_held_up(&progress, Some((12, 3400))));
        assert!(is_held_up(&blocked, Some((12, 3400))));
        assert!(!is_held_up(&blocked, Some((12, 3399))), "rows move");
        assert!(!is_held_up(&blocked, None), "nothing is known of before");
        let line = moving_line(&blocked);
        assert!(
            line.ends_with("3400 rows; node 0badcafe does not answer"),
            "{line}"
        );
        assert!(moving_line(&progress).ends_with("3400 rows"));
    }
}
