//! The numbers and lists of the account.

use archipel_model::identity::NewUser;

use super::{administrator, ask};
use crate::s3::tests::client::Endpoint;

#[tokio::test]
async fn the_account_counts_what_it_holds() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    let group = [("GroupName", "family")];
    ask(&s3, &admin, "CreateGroup", &group).await.ok();
    let summary = ask(&s3, &admin, "GetAccountSummary", &[]).await.ok();
    for (name, count) in [("Users", 1), ("Groups", 1), ("Roles", 0), ("Policies", 0)] {
        let entry = format!("<entry><key>{name}</key><value>{count}</value></entry>");
        assert!(
            summary.text().contains(&entry),
            "{name}: {}",
            summary.text()
        );
    }
    for (action, element) in [
        ("ListAccountAliases", "AccountAliases"),
        ("ListInstanceProfiles", "InstanceProfiles"),
        ("ListServerCertificates", "ServerCertificateMetadataList"),
    ] {
        let none = ask(&s3, &admin, action, &[]).await.ok();
        assert_eq!(none.element(element).unwrap(), "", "{action}");
        assert_eq!(none.element("IsTruncated").unwrap(), "false", "{action}");
    }
    let none = ask(&s3, &admin, "ListSAMLProviders", &[]).await.ok();
    assert_eq!(none.element("SAMLProviderList").unwrap(), "");
    let none = ask(&s3, &admin, "GetAccountPasswordPolicy", &[]).await;
    none.is(404, "NoSuchEntity");

    let nobody = s3.model.create_user(NewUser {
        name: "bob".into(),
        path: "/".into(),
        attach: Vec::new(),
        tags: Vec::new(),
    });
    nobody.await.unwrap();
    let bob = s3.model.create_user_key("bob").await.unwrap();
    for action in [
        "GetAccountPasswordPolicy",
        "GetAccountSummary",
        "ListAccountAliases",
        "ListInstanceProfiles",
        "ListSAMLProviders",
        "ListServerCertificates",
    ] {
        ask(&s3, &bob, action, &[]).await.is(403, "AccessDenied");
    }
}
