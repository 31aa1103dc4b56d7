//! The policy of a bucket, and the form that asks why a request is denied.

use super::logged_in;
use crate::backend::encode;

const RULES: &str = "/buckets/photos/rules";

/// A text that was lost by mistake, such as that of a `Deny`, must not open the bucket.
#[tokio::test]
async fn policy_is_removed_by_its_button_and_not_by_an_empty_text() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let id = site.model.access_keys().unwrap().remove(0).id.clone();
    let policy = format!(
        r#"{{"Statement": {{"Effect": "Deny", "Principal": {{"AWS": "arn:aws:iam::000000000000:user/{id}"}},
        "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}}}}"#
    );
    let button = "value=\"no-policy\"";
    assert!(!site.get(RULES).await.text.contains(button));
    let set = format!("change=policy&text={}", encode(&policy));
    let page = site.set_rule(&set).await;
    assert!(page.contains(button), "{page}");
    for empty in ["", "%20%0D%0A"] {
        site.refuses(&format!("change=policy&text={empty}")).await;
    }
    let policy = || site.model.bucket("photos").unwrap().unwrap().policy.clone();
    assert!(policy().is_some());
    let late = "change=no-policy&shown=0";
    let late = site.post(RULES, late).await;
    assert!(late.status.is_client_error() && policy().is_some());
    let page = site.set_rule("change=no-policy").await;
    assert!(policy().is_none() && !page.contains(button), "{page}");
}

/// Browsers drop the ends of lines in a field, and would ask about another object.
#[tokio::test]
async fn object_whose_key_has_line_ends_is_asked_about_again() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let ask = async |resource: &str| {
        let path = format!("/access?key=anonymous&action=s3%3AGetObject&{resource}");
        site.get(&path).await.text
    };
    let on = |page: &str| {
        let (_, rest) = page.split_once("<dt>On</dt><dd class=\"mono\">").unwrap();
        rest.split_once("</dd>").unwrap().0.to_owned()
    };
    let first = ask("resource=photos%2Fa%0A50%25").await;
    assert!(on(&first).ends_with("photos/a\n50%"), "{first}");
    let field = "name=\"escaped\" required value=\"photos/a%0A50%25\"";
    assert!(first.contains(field), "{first}");
    let again = ask(&format!("escaped={}", encode("photos/a%0A50%25"))).await;
    assert_eq!(on(&again), on(&first));
    let plain = ask("resource=photos%2F50%25").await;
    assert!(plain.contains("name=\"resource\" required value=\"photos/50%\""));
}
