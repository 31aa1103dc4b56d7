//! A bucket's CORS configuration as a document.

use archipel_model::CorsRule;

use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::xml::{self, Element, Writer};

/// The most rules.
pub const MAX_RULES: usize = 100;

/// The longest name of a rule.
pub const MAX_ID_BYTES: usize = 255;

const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];

/// Writes rules as a document.
pub fn document(rules: &[CorsRule]) -> Writer {
    let mut xml = Writer::new("CORSConfiguration");
    rules.iter().for_each(|rule| write(&mut xml, rule));
    xml
}

fn write(xml: &mut Writer, rule: &CorsRule) {
    xml.open("CORSRule");
    xml.optional("ID", rule.id.as_deref());
    let lists = [
        ("AllowedHeader", &rule.allowed_headers),
        ("AllowedMethod", &rule.allowed_methods),
        ("AllowedOrigin", &rule.allowed_origins),
        ("ExposeHeader", &rule.expose_headers),
    ];
    for (name, values) in lists {
        for value in values {
            xml.text(name, value);
        }
    }
    if let Some(seconds) = rule.max_age_seconds {
        xml.value("MaxAgeSeconds", seconds);
    }
    xml.close();
}

/// Reads a configuration and checks it, so that it can be used without further thought.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::InvalidRequest`].
pub fn parse(document: &[u8]) -> S3Result<Vec<CorsRule>> {
    let root = xml::parse(document, "CORSConfiguration")?;
    let rules = root.only(&["CORSRule"])?;
    if rules.is_empty() || rules.len() > MAX_RULES {
        return Err(Code::MalformedXML.into());
    }
    rules.iter().map(parse_rule).collect()
}

fn parse_rule(element: &Element) -> S3Result<CorsRule> {
    element.only(&[
        "ID",
        "AllowedHeader",
        "AllowedMethod",
        "AllowedOrigin",
        "ExposeHeader",
        "MaxAgeSeconds",
    ])?;
    let max_age = element
        .child_text("MaxAgeSeconds")?
        .map(|text| text.trim().parse());
    let rule = CorsRule {
        id: element.child_text("ID")?.map(str::to_owned),
        allowed_origins: element.texts("AllowedOrigin"),
        allowed_methods: element.texts("AllowedMethod"),
        allowed_headers: element.texts("AllowedHeader"),
        expose_headers: element.texts("ExposeHeader"),
        max_age_seconds: max_age.transpose().map_err(|_| Code::MalformedXML)?,
    };
    check(&rule)?;
    Ok(rule)
}

fn check(rule: &CorsRule) -> S3Result<()> {
    let refuse = |why: String| Err(S3Error::new(Code::InvalidRequest, why));
    let id = rule.id.as_deref().unwrap_or_default();
    let none = rule.allowed_origins.is_empty() || rule.allowed_methods.is_empty();
    if none || id.len() > MAX_ID_BYTES {
        return Err(Code::MalformedXML.into());
    }
    if let Some(method) = rule
        .allowed_methods
        .iter()
        .find(|m| !METHODS.contains(&m.as_str()))
    {
        return refuse(format!(
            "Found unsupported HTTP method in CORS config. Unsupported method is {method}"
        ));
    }
    for (name, values, wildcards) in [
        ("AllowedOrigin", &rule.allowed_origins, 1),
        ("AllowedHeader", &rule.allowed_headers, 1),
        ("ExposeHeader", &rule.expose_headers, 0),
    ] {
        for value in values {
            // These values become headers of answers.
            if value.is_empty() || value.bytes().any(|b| !(b' '..=b'~').contains(&b)) {
                return refuse(format!("{name} has a value that is not plain text."));
            }
            if value.matches('*').count() > wildcards {
                return refuse(format!("{name} \"{value}\" has too many wildcards."));
            }
        }
    }
    Ok(())
}
