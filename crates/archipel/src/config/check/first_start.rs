//! `[first_start]`

use archipel_model::{Secret as KeySecret, check_access_key};

use super::{Check, file};
use crate::config::first_start::{FirstKey, FirstStart, SECRET_VARIABLE};
use crate::config::secret::Secret;

impl Check {
    pub(super) fn first_start(
        &mut self,
        first: &file::FirstStart,
        secret: Option<String>,
    ) -> FirstStart {
        let file = first.secret_key_file.as_deref();
        let from_file = self.token("first_start.secret_key_file", file);
        if secret.is_some() && file.is_some() {
            let fix = format!("remove one of first_start.secret_key_file and {SECRET_VARIABLE}");
            let why = "there are two secrets for one key";
            let named = file.map(|path| path.display().to_string());
            self.problem("first_start.secret_key_file", named, why, &fix);
        }
        let secret = from_file.or(secret.map(Secret::of));
        if let Some(name) = &first.bucket
            && let Err(error) = archipel_model::check_bucket_name(name)
        {
            let fix = "a name of 3 to 63 lower-case letters, digits, hyphens and dots, such as \"photos\"";
            self.problem(
                "first_start.bucket",
                Some(name.clone()),
                &error.to_string(),
                fix,
            );
        }
        let key = match (&first.access_key, secret) {
            (Some(id), Some(secret)) => Some(FirstKey {
                id: id.clone(),
                secret,
            }),
            (Some(id), None) if file.is_none() => {
                let fix = format!(
                    "set first_start.secret_key_file, or {SECRET_VARIABLE} in the environment"
                );
                let why = "the key needs a secret";
                self.problem("first_start.access_key", Some(id.clone()), why, &fix);
                None
            }
            (None, Some(_)) => {
                let fix = "set first_start.access_key, the id of the key, such as \"AKexample\"";
                self.problem(
                    "first_start.access_key",
                    None,
                    "there is a secret, but no id",
                    fix,
                );
                None
            }
            _ => None,
        };
        if let Some(key) = &key
            && let Err(error) =
                check_access_key(&key.id, &KeySecret::new(key.secret.expose().to_owned()))
        {
            let fix = "an id of 3 to 128 letters, digits, \"_\", \"-\" and \".\", and a secret of 8 to 256 printable characters";
            self.problem(
                "first_start.access_key",
                Some(key.id.clone()),
                &error.to_string(),
                fix,
            );
        }
        FirstStart {
            bucket: first.bucket.clone(),
            key,
        }
    }
}
