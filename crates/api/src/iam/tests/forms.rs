//! Forms and pages.

use proptest::prelude::*;

use super::{administrator, ask};
use crate::iam::form::Form;
use crate::s3::tests::client::Door;
use crate::s3::uri::encode;

#[tokio::test]
async fn lists_have_pages() {
    let door = Door::open().await;
    let admin = administrator(&door).await;
    for n in 0..5 {
        let name = format!("user{n}");
        ask(
            &door,
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
        let page = ask(&door, &admin, "ListUsers", &parameters).await.ok();
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
