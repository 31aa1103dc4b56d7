//! Requests to IAM and STS, in forms. The server never answers 500, and never panics.
use crate::Source;
use crate::endpoints::{HOST, Service, Unsigned, check, on_endpoints};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;

const OF_IAM: &[&str] = &[
    "AddUserToGroup",
    "AttachGroupPolicy",
    "AttachRolePolicy",
    "AttachUserPolicy",
    "CreateAccessKey",
    "CreateGroup",
    "CreateOpenIDConnectProvider",
    "CreatePolicy",
    "CreatePolicyVersion",
    "CreateRole",
    "CreateUser",
    "DeleteAccessKey",
    "DeleteGroup",
    "DeletePolicy",
    "DeleteRole",
    "DeleteUser",
    "DetachUserPolicy",
    "GetAccessKeyLastUsed",
    "GetPolicy",
    "GetPolicyVersion",
    "GetRole",
    "GetUser",
    "GetUserPolicy",
    "ListAccessKeys",
    "ListAttachedUserPolicies",
    "ListGroupsForUser",
    "ListPolicies",
    "ListUsers",
    "PutGroupPolicy",
    "PutRolePolicy",
    "PutUserPolicy",
    "SimulatePrincipalPolicy",
    "TagUser",
    "UpdateAccessKey",
    "UpdateAssumeRolePolicy",
    "UpdateRole",
    "UpdateUser",
];

const OF_STS: &[&str] = &[
    "AssumeRole",
    "GetCallerIdentity",
    "GetSessionToken",
    "DecodeAuthorizationMessage",
];

const PARAMETERS: &[&str] = &[
    "UserName",
    "GroupName",
    "RoleName",
    "PolicyName",
    "PolicyArn",
    "PolicyDocument",
    "AssumeRolePolicyDocument",
    "AccessKeyId",
    "Status",
    "Path",
    "PathPrefix",
    "NewUserName",
    "Marker",
    "MaxItems",
    "Tags.member.1.Key",
    "Tags.member.1.Value",
    "Description",
    "RoleArn",
    "RoleSessionName",
    "DurationSeconds",
    "Policy",
    "Url",
    "ClientIDList.member.1",
    "ActionNames.member.1",
    "ResourceArns.member.1",
    "PolicySourceArn",
    "EncodedMessage",
    "VersionId",
];

const VALUES: &[&str] = &[
    "anna",
    "anna",
    "family",
    "backup",
    "/",
    "/a/b/",
    "Active",
    "1",
    "900",
    "arn:aws:iam::000000000000:policy/photos",
    "arn:aws:iam::aws:policy/AdministratorAccess",
    "arn:aws:iam::000000000000:role/backup",
    "arn:aws:iam::000000000000:user/anna",
    "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22s3%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%7D",
    "s3%3AGetObject",
    "https%3A%2F%2Fexample.com",
];

fn form(mut source: Source<'_>) -> (Service, String) {
    let action = *source.pick(&[OF_IAM, OF_STS].concat());
    let service = match OF_STS.contains(&action) {
        true => Service::Sts,
        false => Service::Iam,
    };
    let mut text = format!("Action={action}&Version=2010-05-08");
    for _ in 0..source.byte() % 6 {
        let name = *source.pick(PARAMETERS);
        let value = match source.byte() % 4 {
            0 => source
                .some(60)
                .iter()
                .map(|byte| match byte {
                    b' '..=b'~' if !b"%&+=#".contains(byte) => char::from(*byte).to_string(),
                    other => format!("%{other:02X}"),
                })
                .collect(),
            _ => (*source.pick(VALUES)).to_owned(),
        };
        text.push_str(&format!("&{name}={value}"));
    }
    (service, text)
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    on_endpoints(async |endpoints| {
        let (service, text) = match kind {
            b'r' => (Service::Iam, String::from_utf8_lossy(rest).into_owned()),
            _ => form(Source::new(rest)),
        };
        let body = Bytes::from(text);
        let kind = "application/x-www-form-urlencoded";
        // Web identities come without a signature.
        if body.starts_with(b"Action=AssumeRoleWithWebIdentity") {
            let request = Request::builder()
                .method("POST")
                .uri("/")
                .header("host", HOST)
                .header("content-type", kind)
                .header("content-length", body.len())
                .body(Full::new(body));
            if let Ok(request) = request {
                check(&endpoints.send_as_is(service, request).await);
            }
            return;
        }
        let request = Unsigned {
            service,
            method: "POST".into(),
            path: "/".into(),
            query: String::new(),
            headers: vec![("content-type".into(), kind.into())],
            body,
        };
        if let Some(reply) = endpoints.send(request).await {
            check(&reply);
        }
    });
}
