//! `archipel console`

use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::login_link::login_link;

/// Prints a link that logs in to the console.
pub async fn run(target: &Target) -> Result<(), Failure> {
    let url = login_link(&target.client()?).await?;
    match target.json {
        true => table::print_json(&serde_json::json!({ "url": url })),
        false => table::text(&url),
    }
}
