//! `archipel console`

use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::login_link::login_link;

/// Prints a link that logs in to the console.
pub async fn run(target: &Target) -> Result<(), Failure> {
    table::text(&login_link(&target.client()?).await?)
}
