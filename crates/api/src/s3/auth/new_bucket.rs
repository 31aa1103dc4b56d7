//! The document of CreateBucket, as policies see it.

use archipel_access::Context;
use archipel_model::Tags;

/// What CreateBucket asks for in its document.
#[derive(Default)]
pub struct NewBucket {
    /// The region.
    pub region: Option<String>,
    /// The tags.
    pub tags: Tags,
}

impl NewBucket {
    pub(super) fn describe(&self, context: &mut Context) {
        if let Some(region) = &self.region {
            context.set("s3:LocationConstraint", region);
        }
        if self.tags.is_empty() {
            return;
        }
        for (name, value) in &self.tags {
            context.set(&format!("aws:RequestTag/{name}"), value);
        }
        let names = self.tags.iter().map(|(name, _)| name.clone());
        context.set_all("aws:TagKeys", names);
    }
}
