//! Lists of the admin API, of which the console shows a page at a time.

use archipel_api::admin::types::Page;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::backend::{Backend, query};
use crate::fault::Fault;

/// The items on a page.
const PAGE_ITEMS: &str = "50";

/// The place of a page in its list.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The name after which the page begins; empty for the first page.
    pub after: String,
}

/// A page of a list.
pub struct Listed<T> {
    pub is_first: bool,
    pub items: Vec<T>,
    /// The link to the next page.
    pub next: Option<String>,
}

impl Backend<'_> {
    /// Gets a page of a list, which has the same path in the console as below `/v1`.
    pub async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        filters: &[(&str, &str)],
        after: &str,
    ) -> Result<Listed<T>, Fault> {
        let filtered = |more: &[(&str, &str)]| query(&[filters, more].concat());
        let ask = filtered(&[("limit", PAGE_ITEMS), ("after", after)]);
        let page: Page<T> = self.get(&format!("/v1{path}{ask}")).await?;
        let link = |next: String| format!("{path}{}", filtered(&[("after", &next)]));
        Ok(Listed {
            is_first: after.is_empty(),
            items: page.items,
            next: page.next.map(link),
        })
    }
}
