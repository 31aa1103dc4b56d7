//! The check of `[web]`.

use super::Check;
use crate::config::{Web, file};

impl Check {
    pub(super) fn web(&mut self, web: &file::Web) -> Option<Web> {
        if let Some(domain) = &web.root_domain {
            self.domain("web.root_domain", domain);
            if web.listen.is_none() {
                let fix = "set web.listen, such as \"127.0.0.1:3902\", or remove web.root_domain";
                let why = "web.root_domain needs web.listen, which is missing";
                self.problem("web.listen", None, why, fix);
            }
        }
        let listen = web.listen.as_deref()?;
        Some(Web {
            listen: self.address("web.listen", listen),
            root_domain: web.root_domain.as_ref().map(|d| d.to_ascii_lowercase()),
        })
    }
}
