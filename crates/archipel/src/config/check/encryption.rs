//! The check of `[encryption]`.

use super::Check;
use crate::config::{Encryption, file};

impl Check {
    pub(super) fn encryption(&mut self, encryption: &file::Encryption) -> Encryption {
        if encryption.previous_key_file.is_some() && encryption.key_file.is_none() {
            let fix = "name the present key in encryption.key_file, or remove encryption.previous_key_file";
            let why = "encryption.previous_key_file needs encryption.key_file, which is missing";
            self.problem("encryption.key_file", None, why, fix);
        }
        let (key, previous) = ("encryption.key_file", "encryption.previous_key_file");
        Encryption {
            key: self.token(key, encryption.key_file.as_deref()),
            previous: self.token(previous, encryption.previous_key_file.as_deref()),
        }
    }
}
