//! The quota of a bucket or of a user, as a form.

use archipel_api::admin::types::{Quota, QuotaUse};

use crate::fault::Fault;
use crate::request::Fields;
use crate::show;

/// A quota and what is used of it.
pub struct QuotaView(pub QuotaUse);

impl QuotaView {
    /// Returns what is held, for people.
    pub fn used(&self) -> String {
        let QuotaUse { bytes, objects, .. } = self.0;
        format!("{} objects, {}", show::count(objects), show::bytes(bytes))
    }

    /// Returns how much of each limit is used, in hundredths.
    pub fn fill(&self) -> Vec<(&'static str, u64)> {
        let Quota { bytes, objects } = self.0.quota;
        let bytes = bytes.map(|most| ("bytes", show::percent(self.0.bytes, most)));
        let objects = objects.map(|most| ("objects", show::percent(self.0.objects, most)));
        bytes.into_iter().chain(objects).collect()
    }
}

/// Reads the quota of a form. An empty field is no limit.
///
/// # Errors
/// A field is no size or no number.
pub fn read(fields: &Fields) -> Result<Quota, Fault> {
    let size = |text: String| {
        let wrong = || Fault::invalid(format!("{text:?} is no size; write for example 500GiB"));
        show::parse_bytes(&text).ok_or_else(wrong)
    };
    let number = |text: String| {
        let wrong = || Fault::invalid(format!("objects: {text:?} is no number"));
        text.parse().map_err(|_| wrong())
    };
    Ok(Quota {
        bytes: fields.some("bytes").map(size).transpose()?,
        objects: fields.some("objects").map(number).transpose()?,
    })
}
