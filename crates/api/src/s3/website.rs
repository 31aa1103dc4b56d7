//! A bucket's website configuration as a document.
//!
//! Source: AWS, PutBucketWebsite, "Configuring a webpage redirect".

use archipel_model::Website;
use archipel_model::website::{Pages, Redirect, RedirectAll, RoutingRule};

use super::error::{Code, S3Error, S3Result};
use super::target::MAX_KEY_BYTES;
use super::xml::{self, Element, Writer};

/// The most routing rules.
const MAX_RULES: usize = 50;

/// Writes a website as a document.
pub fn document(website: &Website) -> Writer {
    let mut xml = Writer::new("WebsiteConfiguration");
    match website {
        Website::Redirect(redirect) => {
            xml.open("RedirectAllRequestsTo");
            xml.text("HostName", &redirect.host);
            xml.optional("Protocol", redirect.protocol.as_deref());
            xml.close();
        }
        Website::Pages(pages) => write_pages(&mut xml, pages),
    }
    xml
}

fn write_pages(xml: &mut Writer, pages: &Pages) {
    xml.open("IndexDocument");
    xml.text("Suffix", &pages.index);
    xml.close();
    if let Some(error) = &pages.error {
        xml.open("ErrorDocument");
        xml.text("Key", error);
        xml.close();
    }
    if pages.rules.is_empty() {
        return;
    }
    xml.open("RoutingRules");
    for rule in &pages.rules {
        xml.open("RoutingRule");
        let status = rule.error_status.map(|status| status.to_string());
        if status.is_some() || rule.key_prefix.is_some() {
            xml.open("Condition");
            xml.optional("KeyPrefixEquals", rule.key_prefix.as_deref());
            xml.optional("HttpErrorCodeReturnedEquals", status.as_deref());
            xml.close();
        }
        let redirect = &rule.redirect;
        let status = redirect.status.map(|status| status.to_string());
        xml.open("Redirect");
        xml.optional("Protocol", redirect.protocol.as_deref());
        xml.optional("HostName", redirect.host.as_deref());
        xml.optional("ReplaceKeyPrefixWith", redirect.key_prefix.as_deref());
        xml.optional("ReplaceKeyWith", redirect.key.as_deref());
        xml.optional("HttpRedirectCode", status.as_deref());
        xml.close();
        xml.close();
    }
    xml.close();
}

/// Reads a configuration and checks it, so that it can be used without further thought.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::InvalidArgument`], [`Code::InvalidRequest`].
pub fn parse(document: &[u8]) -> S3Result<Website> {
    let root = xml::parse(document, "WebsiteConfiguration")?;
    root.only(&[
        "ErrorDocument",
        "IndexDocument",
        "RedirectAllRequestsTo",
        "RoutingRules",
    ])?;
    if let Some(all) = root.child("RedirectAllRequestsTo")? {
        if root.children.len() > 1 {
            let why =
                "RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.";
            return Err(S3Error::argument("RedirectAllRequestsTo", "not null", why));
        }
        return parse_redirect_all(all).map(Website::Redirect);
    }
    let index = match root.child("IndexDocument")? {
        Some(index) => index.only(&["Suffix"]).and(index.required_text("Suffix"))?,
        None => {
            let why = "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty";
            return Err(S3Error::argument("IndexDocument", "null", why));
        }
    };
    if index.is_empty() || index.contains('/') || index.len() > MAX_KEY_BYTES {
        let why = "The IndexDocument Suffix is not well formed";
        return Err(S3Error::argument("IndexDocument", index, why));
    }
    let error = match root.child("ErrorDocument")? {
        Some(error) => Some(error.only(&["Key"]).and(error.required_text("Key"))?),
        None => None,
    };
    if let Some(error) = error.filter(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
        let why = "The ErrorDocument Key is not well formed";
        return Err(S3Error::argument("ErrorDocument", error, why));
    }
    let rules = match root.child("RoutingRules")? {
        Some(rules) => match rules.only(&["RoutingRule"])? {
            [] => return Err(Code::MalformedXML.into()),
            rules => rules,
        },
        None => &[],
    };
    if rules.len() > MAX_RULES {
        return Err(invalid(format!(
            "{} routing rules provided, the number of routing rules in a website configuration is limited to {MAX_RULES}.",
            rules.len()
        )));
    }
    Ok(Website::Pages(Pages {
        index: index.to_owned(),
        error: error.map(str::to_owned),
        rules: rules.iter().map(parse_rule).collect::<S3Result<_>>()?,
    }))
}

fn parse_redirect_all(element: &Element) -> S3Result<RedirectAll> {
    element.only(&["HostName", "Protocol"])?;
    element.required_text("HostName")?;
    Ok(RedirectAll {
        host: host(element)?.ok_or(Code::MalformedXML)?,
        protocol: protocol(element)?,
    })
}

fn parse_rule(element: &Element) -> S3Result<RoutingRule> {
    element.only(&["Condition", "Redirect"])?;
    let mut rule = RoutingRule::default();
    if let Some(condition) = element.child("Condition")? {
        condition.only(&["HttpErrorCodeReturnedEquals", "KeyPrefixEquals"])?;
        rule.key_prefix = key(condition, "KeyPrefixEquals")?;
        if let Some(text) = condition.child_text("HttpErrorCodeReturnedEquals")? {
            rule.error_status = Some(status(text, 400..=599).ok_or_else(|| {
                invalid(format!(
                    "The provided HTTP error code ({text}) is not valid. Valid codes are 4XX or 5XX."
                ))
            })?);
        }
        if condition.children.is_empty() {
            let why = "Condition cannot be empty. To redirect all requests without a condition, \
                       the condition element shouldn't be present.";
            return Err(invalid(why));
        }
    }
    let redirect = element.child("Redirect")?.ok_or(Code::MalformedXML)?;
    rule.redirect = parse_redirect(redirect)?;
    Ok(rule)
}

fn parse_redirect(element: &Element) -> S3Result<Redirect> {
    let children = element.only(&[
        "HostName",
        "HttpRedirectCode",
        "Protocol",
        "ReplaceKeyPrefixWith",
        "ReplaceKeyWith",
    ])?;
    if children.is_empty() {
        return Err(Code::MalformedXML.into());
    }
    let redirect = Redirect {
        host: host(element)?,
        protocol: protocol(element)?,
        status: match element.child_text("HttpRedirectCode")? {
            None => None,
            Some(text) => Some(status(text, 301..=399).ok_or_else(|| {
                invalid(format!(
                    "The provided HTTP redirect code ({text}) is not valid. Valid codes are 3XX except 300."
                ))
            })?),
        },
        key: key(element, "ReplaceKeyWith")?,
        key_prefix: key(element, "ReplaceKeyPrefixWith")?,
    };
    if redirect.key.is_some() && redirect.key_prefix.is_some() {
        let why = "You can only define ReplaceKeyPrefix or ReplaceKey but not both.";
        return Err(invalid(why));
    }
    Ok(redirect)
}

fn invalid(why: impl Into<std::borrow::Cow<'static, str>>) -> S3Error {
    S3Error::new(Code::InvalidRequest, why)
}

fn status(text: &str, valid: std::ops::RangeInclusive<u16>) -> Option<u16> {
    text.parse().ok().filter(|status| valid.contains(status))
}

/// Reads the host of a redirect. It becomes a part of a header.
fn host(element: &Element) -> S3Result<Option<String>> {
    let Some(host) = element.child_text("HostName")? else {
        return Ok(None);
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/[]%?=&+".contains(&b);
    if host.is_empty() || host.len() > 1024 || host.starts_with('/') || !host.bytes().all(plain) {
        return Err(invalid(format!("The HostName \"{host}\" is not valid.")));
    }
    Ok(Some(host.to_owned()))
}

fn protocol(element: &Element) -> S3Result<Option<String>> {
    match element.child_text("Protocol")? {
        None => Ok(None),
        Some(protocol @ ("http" | "https")) => Ok(Some(protocol.to_owned())),
        Some(_) => {
            let why = "Invalid protocol, protocol can be http or https. If not defined the \
                       protocol will be selected automatically.";
            Err(invalid(why))
        }
    }
}

/// Reads a key, or the beginning of one.
fn key(element: &Element, name: &str) -> S3Result<Option<String>> {
    match element.child_text(name)? {
        Some(key) if key.len() > MAX_KEY_BYTES => Err(Code::KeyTooLongError.into()),
        key => Ok(key.map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse;
    use crate::s3::error::Code;

    fn refused(inner: &str) -> Code {
        let document = format!("<WebsiteConfiguration>{inner}</WebsiteConfiguration>");
        parse(document.as_bytes()).expect_err(inner).code()
    }

    const INDEX: &str = "<IndexDocument><Suffix>i</Suffix></IndexDocument>";

    #[test]
    fn configurations_that_make_no_sense_are_refused() {
        assert_eq!(refused(""), Code::InvalidArgument);
        let index = |suffix| format!("<IndexDocument><Suffix>{suffix}</Suffix></IndexDocument>");
        assert_eq!(refused(&index("")), Code::InvalidArgument);
        assert_eq!(refused(&index("a/b")), Code::InvalidArgument);
        assert_eq!(refused("<IndexDocument/>"), Code::MalformedXML);
        let error = format!("{INDEX}<ErrorDocument><Key></Key></ErrorDocument>");
        assert_eq!(refused(&error), Code::InvalidArgument);
        let all = "<RedirectAllRequestsTo><HostName>h</HostName></RedirectAllRequestsTo>";
        assert_eq!(refused(&format!("{all}{INDEX}")), Code::InvalidArgument);
        let no_rules = format!("{INDEX}<RoutingRules/>");
        assert_eq!(refused(&no_rules), Code::MalformedXML);
        let no_host = "<RedirectAllRequestsTo><Protocol>http</Protocol></RedirectAllRequestsTo>";
        assert_eq!(refused(no_host), Code::MalformedXML);
        assert_eq!(refused("<Other/>"), Code::MalformedXML);
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let rules = |rules: &str| refused(&format!("{INDEX}<RoutingRules>{rules}</RoutingRules>"));
        let rule = |inner: &str| rules(&format!("<RoutingRule>{inner}</RoutingRule>"));
        let redirect = "<Redirect><HostName>h</HostName></Redirect>";
        for (inner, code) in [
            ("", Code::MalformedXML),
            ("<Redirect/>", Code::MalformedXML),
            (
                "<Redirect><HostName>a b</HostName></Redirect>",
                Code::InvalidRequest,
            ),
            (
                "<Redirect><HostName>a&#10;b</HostName></Redirect>",
                Code::InvalidRequest,
            ),
            (
                "<Redirect><Protocol>ftp</Protocol></Redirect>",
                Code::InvalidRequest,
            ),
            (
                "<Redirect><HttpRedirectCode>300</HttpRedirectCode></Redirect>",
                Code::InvalidRequest,
            ),
            (
                "<Redirect><HttpRedirectCode>200</HttpRedirectCode></Redirect>",
                Code::InvalidRequest,
            ),
            (
                "<Redirect><ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>b</ReplaceKeyPrefixWith></Redirect>",
                Code::InvalidRequest,
            ),
            (&format!("<Condition/>{redirect}"), Code::InvalidRequest),
            (
                &format!(
                    "<Condition><HttpErrorCodeReturnedEquals>302</HttpErrorCodeReturnedEquals></Condition>{redirect}"
                ),
                Code::InvalidRequest,
            ),
        ] {
            assert_eq!(rule(inner), code, "{inner}");
        }
        let many = format!("<RoutingRule>{redirect}</RoutingRule>").repeat(51);
        assert_eq!(rules(&many), Code::InvalidRequest);
    }

    proptest! {
        #[test]
        fn noise_is_no_panic(noise in "[<>/a-zA-Z]{0,60}") {
            let _ = parse(format!("<WebsiteConfiguration>{noise}</WebsiteConfiguration>").as_bytes());
        }
    }
}
