//! Forms and pages.

use proptest::prelude::*;

use super::{administrator, ask};
use crate::iam::form::Form;
use crate::s3::tests::client::Endpoint;
use crate::s3::uri::encode;

#[tokio::test]
async fn lists_have_pages() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    for n in 0..5 {
        let name = format!("user{n}");
        ask(
            &s3,
            &admin,
            "CreateUser",
            &[("UserName", &*name), ("Path", "/p/")],
        )
        .await
        .ok();
    }
    let mut found = Vec::new();
    let mut marker = String::new();
    loop {
        let mut parameters = vec![("MaxItems", "2"), ("PathPrefix", "/p/")];
        if !marker.is_empty() {
            parameters.push(("Marker", &*marker));
        }
        let page = ask(&s3, &admin, "ListUsers", &parameters).await.ok();
        let text = page.text();
        found.extend(
            text.split("<UserName>")
                .skip(1)
                .map(|rest| rest[..5].to_owned()),
        );
        match page.element("Marker") {
            Some(next) => marker = next,
            None => break,
        }
    }
    assert_eq!(found, ["user0", "user1", "user2", "user3", "user4"]);
}

/// Members that nothing would read are refused: a session whose policies were passed over could do
/// everything.
#[test]
fn members_of_lists_are_numbered_without_gaps() {
    let known = ["PolicyArns", "Tags", "TagKeys", "Policy"];
    let of = |text: &str| Form::parse(text).unwrap().only(&known).is_ok();
    for taken in [
        "PolicyArns.member.1.arn=a&PolicyArns.member.2.arn=b",
        "Tags.member.1.Key=a&Tags.member.1.Value=b",
        "TagKeys.member.1=a&TagKeys.member.2=b",
        "Tags=",
        "Policy=x",
    ] {
        assert!(of(taken), "{taken}");
    }
    for refused in [
        "PolicyArns=a",
        "PolicyArns.arn=a",
        "PolicyArns.1.arn=a",
        "PolicyArns.member.1=a",
        "PolicyArns.member.1.Arn=a",
        "PolicyArns.member.0.arn=a",
        "PolicyArns.member.01.arn=a",
        "PolicyArns.member.2.arn=a",
        "PolicyArns.member.1.arn=a&PolicyArns.member.3.arn=b",
        "PolicyArns.member.x.arn=a",
        "Tags.member.1.Value=b",
        "TagKeys.member.1.Key=a",
        "Policy.member.1=x",
    ] {
        assert!(!of(refused), "{refused}");
    }
}

#[test]
fn tags_are_as_aws_allows_them() {
    let tags = |name: &str, value: &str| {
        let text = format!(
            "Tags.member.1.Key={}&Tags.member.1.Value={}",
            encode(name),
            encode(value)
        );
        Form::parse(&text).unwrap().tags().is_ok()
    };
    assert!(tags("team a", "b+c=d@e"));
    assert!(tags("größe", ""));
    for (name, value) in [
        ("a!", "b"),
        ("a", "b\u{0}"),
        ("aws:a", "b"),
        ("AWS:a", "b"),
        ("a", "aws:b"),
        ("", "b"),
    ] {
        assert!(!tags(name, value), "{name} {value}");
    }
    let without_value = Form::parse("Tags.member.1.Key=a").unwrap();
    assert!(without_value.tags().is_err());
}

#[tokio::test]
async fn entities_of_a_policy_have_pages() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    let arn = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess";
    for name in ["ann", "bob", "cleo"] {
        ask(&s3, &admin, "CreateUser", &[("UserName", name)])
            .await
            .ok();
        let attach = [("UserName", name), ("PolicyArn", arn)];
        ask(&s3, &admin, "AttachUserPolicy", &attach).await.ok();
    }
    ask(&s3, &admin, "CreateGroup", &[("GroupName", "all")])
        .await
        .ok();
    let attach = [("GroupName", "all"), ("PolicyArn", arn)];
    ask(&s3, &admin, "AttachGroupPolicy", &attach).await.ok();
    let (mut found, mut marker) = (Vec::new(), String::new());
    loop {
        let mut parameters = vec![("PolicyArn", arn), ("MaxItems", "1")];
        if !marker.is_empty() {
            parameters.push(("Marker", &*marker));
        }
        let page = ask(&s3, &admin, "ListEntitiesForPolicy", &parameters)
            .await
            .ok();
        let name = page.element("UserName").or(page.element("GroupName"));
        found.push(name.expect("one entity"));
        match page.element("Marker") {
            Some(next) => marker = next,
            None => break,
        }
    }
    assert_eq!(found, ["all", "ann", "bob", "cleo"]);
    let none = [("PolicyArn", arn), ("MaxItems", "0")];
    ask(&s3, &admin, "ListEntitiesForPolicy", &none)
        .await
        .is(400, "ValidationError");
}

proptest! {
    /// No body makes the reader of forms panic, and what it reads it gives back.
    #[test]
    fn any_text_is_a_form_or_an_error(text in "[A-Za-z0-9%+&=.]{0,120}", noise in ".{0,80}") {
        for text in [text, noise] {
            if let Ok(form) = Form::parse(&text) {
                let _ = form.tags();
                let _ = form.members("a");
                let _ = form.only(&["a"]);
                let _ = form.number("a", 1, 0, 10);
            }
        }
    }

    #[test]
    fn written_forms_are_read(pairs in prop::collection::btree_map("[a-zA-Z.0-9]{1,12}", "[ -~éß漢]{0,20}", 0..10)) {
        let text: Vec<_> = pairs.iter().map(|(n, v)| format!("{}={}", encode(n), encode(v))).collect();
        let form = Form::parse(&text.join("&")).unwrap();
        for (name, value) in &pairs {
            prop_assert_eq!(form.get(name), Some(value.as_str()));
        }
    }
}
