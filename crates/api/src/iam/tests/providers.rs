//! The URLs and ARNs of identity providers.

use super::{administrator, ask};
use crate::s3::tests::client::Endpoint;

#[tokio::test]
async fn the_url_of_a_provider_keeps_its_case() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    let url = ("Url", "https://Id.example.org/realms/MyRealm/");
    let arn = "arn:aws:iam::000000000000:oidc-provider/id.example.org/realms/myrealm";
    let made = ask(&s3, &admin, "CreateOpenIDConnectProvider", &[url]).await;
    assert_eq!(made.ok().element("OpenIDConnectProviderArn").unwrap(), arn);
    let listed = ask(&s3, &admin, "ListOpenIDConnectProviders", &[]).await;
    assert_eq!(listed.ok().element("Arn").unwrap(), arn);
    let spelled = arn.replace("myrealm", "MyRealm");
    for arn in [arn, &*spelled] {
        let arn = [("OpenIDConnectProviderArn", arn)];
        let got = ask(&s3, &admin, "GetOpenIDConnectProvider", &arn).await;
        let url = got.ok().element("Url");
        assert_eq!(url.unwrap(), "Id.example.org/realms/MyRealm/");
    }
    let twice = [("Url", "https://id.example.org/realms/myrealm")];
    ask(&s3, &admin, "CreateOpenIDConnectProvider", &twice)
        .await
        .is(409, "EntityAlreadyExists");

    // Policies know it by the ARN that is shown, however a request spells it.
    let policy = format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Deny",
        "Action": "iam:*OpenIDConnectProvider", "Resource": "{arn}"}}}}"#
    );
    let deny = &[
        ("UserName", "admin"),
        ("PolicyName", "deny"),
        ("PolicyDocument", &*policy),
    ];
    ask(&s3, &admin, "PutUserPolicy", deny).await.ok();
    for arn in [arn, &*spelled] {
        let arn = [("OpenIDConnectProviderArn", arn)];
        ask(&s3, &admin, "DeleteOpenIDConnectProvider", &arn)
            .await
            .is(403, "AccessDenied");
    }
    ask(&s3, &admin, "CreateOpenIDConnectProvider", &[url])
        .await
        .is(403, "AccessDenied");
}
