//! Access control lists: the header that sets one, and the document.
//!
//! Only what a canned ACL can say is accepted. The owner always has full control, so lists with the
//! owner alone change nothing.
//!
//! Source: AWS, "Access control list (ACL) overview" and "Controlling ownership of objects".

use archipel_access::Acl;
use archipel_model::Bucket;
use http::HeaderMap;

use super::call::single_header;
use super::error::{Code, S3Error, S3Result};
use super::owner::Owner;
use super::xml::{self, Element, Writer};

/// The header with a canned ACL.
pub const HEADER: &str = "x-amz-acl";

/// Canned ACLs of S3 that need AWS's own services.
const OF_SERVICES: [&str; 2] = ["aws-exec-read", "log-delivery-write"];

/// Everybody.
const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
/// Every access key.
const AUTHENTICATED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";

/// The namespace of the attribute that tells the kind of a grantee.
const XSI: &str = " xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";

/// Returns the list that a header asks for; `None` without the header.
///
/// # Errors
/// [`Code::InvalidArgument`] for an unknown one, [`Code::NotImplemented`].
pub fn of_headers(headers: &HeaderMap) -> S3Result<Option<Acl>> {
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
pub fn of_new(headers: &HeaderMap, bucket: &Bucket) -> S3Result<Acl> {
    let acl = of_headers(headers)?.unwrap_or_default();
    bucket.check_acl(acl)?;
    Ok(acl)
}

/// Reads a document.
///
/// # Errors
/// [`Code::MalformedACLError`], [`Code::NotImplemented`] for grants that no canned ACL has.
pub fn parse(document: &[u8], owner: &Owner) -> S3Result<Acl> {
    let malformed = |_| S3Error::from(Code::MalformedACLError);
    let root = xml::parse(document, "AccessControlPolicy").map_err(malformed)?;
    root.only(&["Owner", "AccessControlList"])
        .map_err(malformed)?;
    let list = root.child("AccessControlList").map_err(malformed)?;
    let list = list.ok_or(Code::MalformedACLError)?;
    let mut acl = Acl::default();
    let mut owned = false;
    for grant in list.only(&["Grant"]).map_err(malformed)? {
        owned |= add(&mut acl, grant, owner)?;
    }
    // The owner's control cannot be taken away.
    match owned {
        true => Ok(acl),
        false => Err(S3Error::not_implemented(
            "A list without the owner's full control",
        )),
    }
}

/// Adds a grant. Returns true if it is the owner's.
fn add(acl: &mut Acl, grant: &Element, owner: &Owner) -> S3Result<bool> {
    let malformed = |_| S3Error::from(Code::MalformedACLError);
    grant.only(&["Grantee", "Permission"]).map_err(malformed)?;
    let grantee = grant.child("Grantee").map_err(malformed)?;
    let grantee = grantee.ok_or(Code::MalformedACLError)?;
    let permission = grant.required_text("Permission").map_err(malformed)?.trim();
    let known = ["FULL_CONTROL", "READ", "WRITE", "READ_ACP", "WRITE_ACP"];
    if !known.contains(&permission) {
        return Err(Code::MalformedACLError.into());
    }
    let id = grantee.child_text("ID").map_err(malformed)?.map(str::trim);
    let group = grantee.child_text("URI").map_err(malformed)?.map(str::trim);
    match (id, group, permission) {
        (Some(id), None, "FULL_CONTROL") if id == owner.id() => return Ok(true),
        (None, Some(ALL_USERS), "READ") => acl.public_read = true,
        (None, Some(ALL_USERS), "WRITE") => acl.public_write = true,
        (None, Some(AUTHENTICATED_USERS), "READ") => acl.authenticated_read = true,
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
    use super::{Acl, document, parse};
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
            assert_eq!(other, Err(Code::NotImplemented));
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
}
