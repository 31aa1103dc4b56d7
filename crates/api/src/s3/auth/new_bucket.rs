//! The document of a request about a bucket, as policies see it.

use archipel_access::Context;
use archipel_model::Tags;

/// The settings of a new bucket in the document of CreateBucket.
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
        describe_tags(context, &self.tags);
    }
}

/// Sets the condition keys for the tags that a request gives to a bucket.
pub(super) fn describe_tags(context: &mut Context, tags: &Tags) {
    if tags.is_empty() {
        return;
    }
    for (name, value) in tags {
        context.add(&format!("aws:RequestTag/{name}"), value);
    }
    let names = tags.iter().map(|(name, _)| name.clone());
    context.set_all("aws:TagKeys", names);
}
