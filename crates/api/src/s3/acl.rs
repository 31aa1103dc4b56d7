//! Access control lists: the headers that set one, and the document.
//!
//! Only what a canned ACL can say is accepted, whether it is named or spelled out in grants. The
//! owner always has full control, so lists with the owner alone change nothing.
//!
//! Source: AWS, "Access control list (ACL) overview" and "Controlling ownership of objects".

use archipel_access::{Acl, Ownership};
use archipel_model::{Bucket, Model};
use http::HeaderMap;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::call::single_header;
use super::error::{Code, S3Error, S3Result};
use super::owner::Owner;
use super::xml::{self, Element, Writer};

/// The header with a canned ACL.
pub const HEADER: &str = "x-amz-acl";

/// Canned ACLs that give the owner full control, and others nothing. They may be asked for also where lists
/// are disabled.
const OF_OWNER: [&str; 2] = ["private", "bucket-owner-full-control"];

/// Canned ACLs of S3 that need AWS's own services.
const OF_SERVICES: [&str; 2] = ["aws-exec-read", "log-delivery-write"];

/// The headers with grants, and the permission that each one grants.
const GRANTS: [(&str, &str); 5] = [
    ("x-amz-grant-full-control", "FULL_CONTROL"),
    ("x-amz-grant-read", "READ"),
    ("x-amz-grant-read-acp", "READ_ACP"),
    ("x-amz-grant-write", "WRITE"),
    ("x-amz-grant-write-acp", "WRITE_ACP"),
];

/// Everybody.
const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
/// Every access key.
const AUTHENTICATED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";

/// AWS's service that writes access logs.
const LOG_DELIVERY: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";

/// S3's groups.
const GROUPS: [&str; 3] = [ALL_USERS, AUTHENTICATED_USERS, LOG_DELIVERY];

/// The most grants of a list.
const MAX_GRANTS: usize = 100;

/// The namespace of the attribute that tells the kind of a grantee.
const XSI: &str = " xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";

/// Returns the header with grants that a request has, if it has one.
pub fn grants(headers: &HeaderMap) -> Option<&'static str> {
    let names = GRANTS.iter().map(|(name, _)| *name);
    names.into_iter().find(|name| headers.contains_key(*name))
}

/// Returns the list that the headers ask for, by its name or in grants; `None` without them. `disabled` is the
/// error for lists where they are disabled.
///
/// # Errors
/// Those of [`of_canned`]; [`Code::InvalidRequest`] for both kinds of headers; those of grants; `disabled`.
pub fn of_headers(
    headers: &HeaderMap,
    disabled: Option<Code>,
    owner: impl FnOnce() -> S3Result<Owner>,
) -> S3Result<Option<Acl>> {
    if let Some(code) = disabled.filter(|_| asks_for_others(headers)) {
        return Err(code.into());
    }
    let canned = of_canned(headers)?;
    match (canned, grants(headers)) {
        (canned, None) => Ok(canned),
        (Some(_), Some(_)) => {
            let why = "Specifying both Canned ACLs and Header Grants is not allowed";
            Err(S3Error::new(Code::InvalidRequest, why))
        }
        (None, Some(_)) => or_disabled(of_grants(headers, &owner()?), disabled).map(Some),
    }
}

/// Returns the error for disabled lists instead of that for a list which is not implemented.
pub fn or_disabled(read: S3Result<Acl>, disabled: Option<Code>) -> S3Result<Acl> {
    match (read, disabled) {
        (Err(error), Some(code)) if error.code() == Code::NotImplemented => Err(code.into()),
        (read, _) => read,
    }
}

/// Returns true if the names of headers and lists ask for anything but the owner's full control.
fn asks_for_others(headers: &HeaderMap) -> bool {
    let canned = headers.get(HEADER).and_then(|name| name.to_str().ok());
    let is_known = |name: &&str| Acl::of_canned(name).is_some() || OF_SERVICES.contains(name);
    let canned = canned.filter(is_known);
    let mut grants = GRANTS.iter().filter(|(_, of)| *of != "FULL_CONTROL");
    canned.is_some_and(|name| !OF_OWNER.contains(&name))
        || grants.any(|(name, _)| headers.contains_key(*name))
}

/// Returns the error for lists in this bucket, if they are disabled there.
pub fn disabled(bucket: &Bucket) -> Option<Code> {
    let enforced = bucket.ownership() == Ownership::BucketOwnerEnforced;
    enforced.then_some(Code::AccessControlListNotSupported)
}

/// Returns the list that grants make. The owner has full control also if no grant says so.
///
/// # Errors
/// [`Code::InvalidArgument`], [`Code::MalformedACLError`] for too many, and those of grants.
fn of_grants(headers: &HeaderMap, owner: &Owner) -> S3Result<Acl> {
    let mut acl = Acl::default();
    let mut count = 0;
    for (name, permission) in GRANTS {
        let Some(list) = single_header(headers, name)? else {
            continue;
        };
        for text in list.split(',') {
            count += 1;
            if count > MAX_GRANTS {
                return Err(Code::MalformedACLError.into());
            }
            let wrong = || S3Error::argument(name, list, "Argument format not recognized");
            let (kind, value) = text.split_once('=').ok_or_else(wrong)?;
            let value = value.trim();
            let unquoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
            let value = unquoted.unwrap_or(value);
            let grantee = match kind.trim().to_ascii_lowercase().as_str() {
                "id" => Grantee::Id(value),
                "uri" => Grantee::Group(value),
                "emailaddress" => Grantee::Email,
                _ => return Err(wrong()),
            };
            add(&mut acl, grantee, permission, owner)?;
        }
    }
    Ok(acl)
}

/// Returns the list that a header names; `None` without the header.
///
/// # Errors
/// [`Code::InvalidArgument`] for an unknown one, [`Code::NotImplemented`].
pub fn of_canned(headers: &HeaderMap) -> S3Result<Option<Acl>> {
    let Some(name) = single_header(headers, HEADER)? else {
        return Ok(None);
    };
    match Acl::of_canned(name) {
        Some(acl) => Ok(Some(acl)),
        None if OF_SERVICES.contains(&name) => {
            Err(S3Error::not_implemented(&format!("The canned ACL {name}")))
        }
        None => Err(S3Error::argument(HEADER, name, "Unknown canned ACL.")),
    }
}

/// Returns the list of a new object in a bucket.
///
/// # Errors
/// Those of [`of_headers`]; [`Code::AccessControlListNotSupported`] and [`Code::AccessDenied`] for
/// a list that the bucket does not allow.
pub fn of_new(model: &Model, headers: &HeaderMap, bucket: &Bucket) -> S3Result<Acl> {
    let acl = of_headers(headers, disabled(bucket), || {
        Owner::of_bucket(model, bucket)
    })?;
    let acl = acl.unwrap_or_default();
    bucket.check_acl(acl)?;
    Ok(acl)
}

/// Reads a document.
///
/// # Errors
/// [`Code::MalformedACLError`], those of grants; [`Code::AccessDenied`] for another owner.
pub fn parse(document: &[u8], owner: &Owner) -> S3Result<Acl> {
    let malformed = |_| S3Error::from(Code::MalformedACLError);
    let root = xml::parse(document, "AccessControlPolicy").map_err(malformed)?;
    root.only(&["Owner", "AccessControlList"])
        .map_err(malformed)?;
    let named = root.child("Owner").map_err(malformed)?;
    let named = named.ok_or(Code::MalformedACLError)?;
    let id = named.child_text("ID").map_err(malformed)?;
    if id.ok_or(Code::MalformedACLError)?.trim() != owner.id() {
        return Err(Code::AccessDenied.into());
    }
    let list = root.child("AccessControlList").map_err(malformed)?;
    let list = list.ok_or(Code::MalformedACLError)?;
    let mut acl = Acl::default();
    let mut owned = false;
    let grants = list.only(&["Grant"]).map_err(malformed)?;
    let kinds = kinds(document).ok_or(Code::MalformedACLError)?;
    // Each grant has one grantee, and there are none elsewhere.
    if grants.len() > MAX_GRANTS || grants.len() != kinds.len() {
        return Err(Code::MalformedACLError.into());
    }
    for (grant, kind) in grants.iter().zip(&kinds) {
        owned |= read_grant(&mut acl, grant, kind, owner)?;
    }
    // The owner's control cannot be taken away.
    match owned {
        true => Ok(acl),
        false => Err(S3Error::not_implemented(
            "A list without the owner's full control",
        )),
    }
}

/// Returns what the grantees of a document are, in order: their `xsi:type`, which the tree of its elements does
/// not have. `None` if one does not say so.
fn kinds(document: &[u8]) -> Option<Vec<String>> {
    let mut reader = Reader::from_str(std::str::from_utf8(document).ok()?);
    let mut kinds = Vec::new();
    loop {
        match reader.read_event().ok()? {
            Event::Eof => return Some(kinds),
            Event::Start(start) | Event::Empty(start)
                if start.local_name().into_inner() == "Grantee" =>
            {
                let mut attributes = start.attributes().flatten();
                let kind = attributes.find(|attribute| {
                    let name = attribute.key;
                    name.prefix().is_some() && name.local_name().into_inner() == "type"
                });
                kinds.push(kind?.value.into_owned());
            }
            _ => {}
        }
    }
}

/// Adds a grant of a document to a grantee of this kind. Returns true if it is the owner's full control.
fn read_grant(acl: &mut Acl, grant: &Element, kind: &str, owner: &Owner) -> S3Result<bool> {
    let malformed = |_| S3Error::from(Code::MalformedACLError);
    grant.only(&["Grantee", "Permission"]).map_err(malformed)?;
    let grantee = grant.child("Grantee").map_err(malformed)?;
    let grantee = grantee.ok_or(Code::MalformedACLError)?;
    let permission = grant.required_text("Permission").map_err(malformed)?.trim();
    if !GRANTS.iter().any(|(_, known)| *known == permission) {
        return Err(Code::MalformedACLError.into());
    }
    let text = |name| Ok::<_, S3Error>(grantee.child_text(name).map_err(malformed)?.map(str::trim));
    let grantee = match (kind, text("ID")?, text("URI")?, text("EmailAddress")?) {
        ("CanonicalUser", Some(id), None, None) => Grantee::Id(id),
        ("Group", None, Some(group), None) => Grantee::Group(group),
        ("AmazonCustomerByEmail", None, None, Some(_)) => Grantee::Email,
        _ => return Err(Code::MalformedACLError.into()),
    };
    add(acl, grantee, permission, owner)
}

/// The receiver of a grant.
#[derive(Clone, Copy)]
enum Grantee<'t> {
    /// A canonical user id.
    Id(&'t str),
    /// The address of a group.
    Group(&'t str),
    /// The mail address of an account.
    Email,
}

/// Adds a grant. Returns true if it is the owner's full control.
fn add(acl: &mut Acl, grantee: Grantee<'_>, permission: &str, owner: &Owner) -> S3Result<bool> {
    match (grantee, permission) {
        // The owner has it anyway.
        (Grantee::Id(id), _) if id == owner.id() => return Ok(permission == "FULL_CONTROL"),
        (Grantee::Group(ALL_USERS), "READ") => acl.public_read = true,
        (Grantee::Group(ALL_USERS), "WRITE") => acl.public_write = true,
        (Grantee::Group(AUTHENTICATED_USERS), "READ") => acl.authenticated_read = true,
        // As S3 does since it has dropped such grants.
        (Grantee::Email, _) => return Err(Code::MethodNotAllowed.into()),
        (Grantee::Id(id), _) if !Owner::is_id(id) => {
            return Err(S3Error::argument("CanonicalUser/ID", id, "Invalid id"));
        }
        (Grantee::Group(group), _) if !GROUPS.contains(&group) => {
            return Err(S3Error::argument("uri", group, "Invalid group uri"));
        }
        _ => return Err(S3Error::not_implemented("A grant that no canned ACL has")),
    }
    Ok(false)
}

/// Writes a document.
pub fn document(acl: Acl, owner: &Owner) -> Writer {
    let mut xml = Writer::new("AccessControlPolicy");
    owner.write(&mut xml, "Owner");
    xml.open("AccessControlList");
    grant(&mut xml, "CanonicalUser", "FULL_CONTROL", |xml| {
        xml.text("ID", owner.id());
        xml.text("DisplayName", owner.id());
    });
    let groups = [
        (acl.public_read, ALL_USERS, "READ"),
        (acl.public_write, ALL_USERS, "WRITE"),
        (acl.authenticated_read, AUTHENTICATED_USERS, "READ"),
    ];
    for (_, group, permission) in groups.into_iter().filter(|(granted, ..)| *granted) {
        grant(&mut xml, "Group", permission, |xml| xml.text("URI", group));
    }
    xml
}

fn grant(xml: &mut Writer, kind: &str, permission: &str, grantee: impl FnOnce(&mut Writer)) {
    xml.open("Grant");
    xml.open_with("Grantee", &format!("{XSI} xsi:type=\"{kind}\""));
    grantee(xml);
    xml.close();
    xml.text("Permission", permission);
    xml.close();
}

#[cfg(test)]
mod tests {
    use super::{Acl, document, of_grants, parse};
    use crate::s3::error::Code;
    use crate::s3::owner::Owner;

    #[test]
    fn documents_say_what_canned_lists_say() {
        let owner = Owner::of_key("AK1");
        for name in [
            "private",
            "public-read",
            "public-read-write",
            "authenticated-read",
        ] {
            let acl = Acl::of_canned(name).unwrap();
            let text = document(acl, &owner).finish();
            assert_eq!(parse(&text, &owner), Ok(acl), "{name}");
            let other = parse(&text, &Owner::of_key("AK2")).map_err(|e| e.code());
            assert_eq!(other, Err(Code::AccessDenied));
        }
    }

    #[test]
    fn other_documents_are_refused() {
        let owner = Owner::of_key("AK1");
        let code = |text: &str| parse(text.as_bytes(), &owner).map_err(|e| e.code());
        assert_eq!(code("<a/>"), Err(Code::MalformedACLError));
        assert_eq!(code("<AccessControlPolicy/>"), Err(Code::MalformedACLError));
        let full = String::from_utf8(document(Acl::default(), &owner).finish()).unwrap();
        let acp = full.replace("FULL_CONTROL", "READ_ACP");
        assert_eq!(code(&acp), Err(Code::NotImplemented));
        let wrong = full.replace("FULL_CONTROL", "ALL");
        assert_eq!(code(&wrong), Err(Code::MalformedACLError));
    }

    #[test]
    fn grantees_are_what_they_say() {
        let owner = Owner::of_key("AK1");
        let code = |text: &str| parse(text.as_bytes(), &owner).map_err(|e| e.code());
        let full = String::from_utf8(document(Acl::default(), &owner).finish()).unwrap();
        let kind = "xsi:type=\"CanonicalUser\"";
        assert_eq!(code(&full), Ok(Acl::default()));
        let single = full.replace(kind, "xsi:type = 'CanonicalUser'");
        assert_eq!(code(&single), Ok(Acl::default()));
        for other in [
            "",
            "type=\"CanonicalUser\"",
            "xsi:type=\"Bogus\"",
            "xsi:type=\"Group\"",
            "xsi:type=\"AmazonCustomerByEmail\"",
        ] {
            let wrong = full.replace(kind, other);
            assert_eq!(code(&wrong), Err(Code::MalformedACLError), "{other}");
        }
        // A grantee in another place does not lend its kind to that of a grant.
        let typed = format!("<Grantee xmlns:xsi=\"x\" {kind}/></Owner>");
        let group = full.replace(kind, "xsi:type=\"Group\"");
        let lent = group.replace("</Owner>", &typed);
        assert_eq!(code(&lent), Err(Code::MalformedACLError));
    }

    #[test]
    fn a_list_has_a_hundred_grants() {
        let owner = Owner::of_key("AK1");
        let full = String::from_utf8(document(Acl::default(), &owner).finish()).unwrap();
        let (start, rest) = full.split_once("<Grant>").unwrap();
        let (grant, end) = rest.split_once("</Grant>").unwrap();
        let grants = |count: usize| format!("<Grant>{grant}</Grant>").repeat(count);
        let code = |count: usize| {
            let text = format!("{start}{}{end}", grants(count));
            parse(text.as_bytes(), &owner).map_err(|e| e.code())
        };
        assert_eq!(code(100), Ok(Acl::default()));
        assert_eq!(code(101), Err(Code::MalformedACLError));
        let of_headers = |count: usize| {
            let grants = vec![format!("id={}", owner.id()); count].join(",");
            let headers = [("x-amz-grant-read", grants)].map(|(name, value)| {
                let name = http::HeaderName::from_static(name);
                (name, http::HeaderValue::try_from(value).unwrap())
            });
            of_grants(&headers.into_iter().collect(), &owner).map_err(|e| e.code())
        };
        assert_eq!(of_headers(100), Ok(Acl::default()));
        assert_eq!(of_headers(101), Err(Code::MalformedACLError));
    }
}
