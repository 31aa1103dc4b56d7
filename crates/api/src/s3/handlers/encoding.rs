//! Parameters of listings, and names as the documents of listings have them.

use crate::s3::call::Call;
use crate::s3::error::{S3Error, S3Result};
use crate::s3::uri;
use crate::s3::xml::{self, Writer};

/// Returns a number among the parameters, cut to `most`.
pub fn count_parameter(
    call: &Call<'_>,
    name: &str,
    default: usize,
    most: usize,
) -> S3Result<usize> {
    let Some(text) = call.target.query.single_text(name)? else {
        return Ok(default);
    };
    match text.parse::<i32>() {
        Ok(number) if number >= 0 => Ok((number as usize).min(most)),
        _ => {
            let why = format!("Provided {name} not an integer or within integer range");
            Err(S3Error::argument(name, text, why))
        }
    }
}

/// The header that asks for more about each object of a listing.
const ATTRIBUTES: &str = "x-amz-optional-object-attributes";

/// Refuses a request for unknown attributes. The known one tells of restores from an archive: no
/// object has it.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::s3::error::Code::InvalidArgument).
pub fn check_attributes(call: &Call<'_>) -> S3Result<()> {
    for value in call.headers.get_all(ATTRIBUTES) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let mut names = text.split(',').map(str::trim);
        if let Some(name) = names.find(|name| !["", "RestoreStatus"].contains(name)) {
            let why = "Invalid attribute name specified.";
            return Err(S3Error::argument(ATTRIBUTES, name, why));
        }
    }
    Ok(())
}

/// The encoding of names in a listing.
#[derive(Clone, Copy)]
pub struct Encoding {
    url: bool,
}

impl Encoding {
    /// Returns the encoding that the request asks for.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::s3::error::Code::InvalidArgument) for an unknown one.
    pub fn of(call: &Call<'_>) -> S3Result<Encoding> {
        match call.target.query.single("encoding-type")? {
            None | Some("") => Ok(Encoding { url: false }),
            Some("url") => Ok(Encoding { url: true }),
            Some(other) => {
                let why = "Invalid Encoding Method specified in Request";
                Err(S3Error::argument("encoding-type", other, why))
            }
        }
    }

    /// Returns a name, encoded.
    pub fn name(self, name: &str) -> String {
        if self.url {
            uri::encode_path(name)
        } else {
            name.to_owned()
        }
    }

    /// Returns true if the next page can begin after this name: the document can hold it.
    pub fn holds(self, name: &str) -> bool {
        self.url || name.chars().all(xml::is_legal)
    }

    /// Ends a page where the next one can begin, if one follows. The entries left out come first
    /// there.
    pub fn end_earlier<T>(self, truncated: bool, entries: &mut Vec<T>, name: fn(&T) -> &str) {
        let ends = |entry: &T| self.holds(name(entry));
        if truncated && let Some(last) = entries.iter().rposition(ends) {
            entries.truncate(last + 1);
        }
    }

    /// Returns the name after which the next page begins, encoded. A page ends earlier where that
    /// helps.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::s3::error::Code::InvalidArgument) if XML cannot hold it:
    /// the next page would begin elsewhere, and keys would be left out.
    pub fn marker(self, name: &str) -> S3Result<String> {
        if !self.holds(name) {
            let why = "XML can hold none of the keys on this page, so no page can begin after them. Ask with encoding-type=url.";
            return Err(S3Error::argument("encoding-type", "", why));
        }
        Ok(self.name(name))
    }

    /// Writes a delimiter, if there is one.
    pub fn write_delimiter(self, xml: &mut Writer, delimiter: Option<&str>) {
        if let Some(delimiter) = delimiter {
            xml.text("Delimiter", &self.name(delimiter));
        }
    }

    /// Writes the prefixes that stand for groups of names.
    pub fn write_prefixes<'p>(self, xml: &mut Writer, prefixes: impl Iterator<Item = &'p String>) {
        for prefix in prefixes {
            xml.open("CommonPrefixes");
            xml.text("Prefix", &self.name(prefix));
            xml.close();
        }
    }

    /// Writes the encoding, if there is one.
    pub fn write(self, xml: &mut Writer) {
        if self.url {
            xml.text("EncodingType", "url");
        }
    }
}
