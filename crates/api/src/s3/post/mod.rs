//! PostObject: an upload from a browser's form. The body is `multipart/form-data`: fields, then the
//! file. The fields carry a policy, signed by the key that allowed the upload, that says what the
//! other fields may be.
//!
//! Source: AWS, "Browser-based uploads using POST" and "POST policy"; RFC 7578 for the form.

pub mod form;
pub mod policy;

pub use form::{Event, FormReader};
pub use policy::Policy;

use super::error::{S3Error, S3Result};

/// Fields that hold no text of the form.
const OF_SIGNATURE: [&str; 6] = [
    "awsaccesskeyid",
    "policy",
    "signature",
    "x-amz-credential",
    "x-amz-security-token",
    "x-amz-signature",
];

/// The fields of a form, by lower-case name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Adds a field. Values of one name of user metadata are joined, as those of a header.
    ///
    /// # Errors
    /// `InvalidArgument` if another field is there already.
    pub fn add(&mut self, name: &str, value: String) -> S3Result<()> {
        let name = name.to_ascii_lowercase();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            None => self.0.push((name, value)),
            Some((_, known)) if name.starts_with("x-amz-meta-") => {
                known.push(',');
                known.push_str(&value);
            }
            Some(_) => {
                let why = "A form field is given more than once.";
                return Err(S3Error::argument(&name, "", why));
            }
        }
        Ok(())
    }

    /// Returns the value of a field, by lower-case name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a field that must be there.
    ///
    /// # Errors
    /// `InvalidArgument` that names it.
    pub fn required(&self, name: &str) -> S3Result<&str> {
        self.get(name).ok_or_else(|| {
            let why = format!(
                "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the \
                 fields."
            );
            S3Error::argument(name, "", why)
        })
    }

    /// Returns all fields, by lower-case name, as they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Puts the file's name in the place of `${filename}`. Conditions are about what the fields say
    /// then.
    pub fn expand(&mut self, filename: &str) {
        for (name, value) in &mut self.0 {
            if !OF_SIGNATURE.contains(&name.as_str()) {
                *value = value.replace("${filename}", filename);
            }
        }
    }

    /// Returns the key of the object.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such field or it is empty.
    pub fn key(&self) -> S3Result<String> {
        match self.required("key")? {
            "" => Err(S3Error::argument(
                "key",
                "",
                "User key must have a length greater than 0.",
            )),
            key => Ok(key.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
