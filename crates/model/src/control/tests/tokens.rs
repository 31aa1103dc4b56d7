//! Tokens of the admin API on several nodes and over time.

use super::{model, world};
use crate::{Model, NewToken, TokenChange, TokenScope};

fn reader(expires_ms: Option<u64>) -> NewToken {
    let scope = TokenScope {
        resource: "buckets".into(),
        write: false,
        bucket: None,
    };
    NewToken {
        name: "reader".into(),
        scopes: vec![scope],
        expires_ms,
    }
}

#[tokio::test]
async fn only_the_whole_text_of_a_token_is_admitted() {
    let model = model().await;
    let (token, text) = model.create_admin_token(reader(None)).await.unwrap();
    let admitted = model.admit_admin_token(text.expose()).await.unwrap();
    assert_eq!(admitted, Some(token.clone()));
    let (start, secret) = text.expose().rsplit_once('_').unwrap();
    for wrong in [
        String::new(),
        format!("{start}_"),
        format!("{start}_{}", &secret[1..]),
        format!("{start}_{secret}A"),
        format!("archipel_NONE_{secret}"),
        secret.to_owned(),
    ] {
        assert_eq!(model.admit_admin_token(&wrong).await, Ok(None), "{wrong}");
    }
    let row = archipel_base::codec::encode(&*token);
    let holds = row
        .windows(secret.len())
        .any(|part| part == secret.as_bytes());
    assert!(!holds, "the row holds the secret");
}

#[tokio::test]
async fn a_token_ends_when_it_expires() {
    let model = model().await;
    let now = model.now_ms();
    let past = model.create_admin_token(reader(Some(now))).await;
    assert!(matches!(past, Err(crate::Error::InvalidValue(_))));
    let soon = Some(now + 3_600_000);
    let (token, _) = model.create_admin_token(reader(soon)).await.unwrap();
    assert!(token.is_live(now) && !token.is_live(now + 3_600_000));
}

#[tokio::test]
async fn a_changed_token_keeps_its_secret_and_what_is_not_named() {
    let model = model().await;
    let later = Some(model.now_ms() + 3_600_000);
    let (token, text) = model.create_admin_token(reader(later)).await.unwrap();
    let change = TokenChange {
        name: Some("writer".into()),
        ..TokenChange::default()
    };
    let changed = model.change_admin_token(&token.id, change).await.unwrap();
    assert_eq!(
        (changed.name.as_str(), changed.expires_ms),
        ("writer", later)
    );
    assert_eq!(changed.scopes, token.scopes);
    let admitted = model.admit_admin_token(text.expose()).await.unwrap();
    assert_eq!(admitted, Some(changed));
    let never = TokenChange {
        expires_ms: Some(None),
        ..TokenChange::default()
    };
    let changed = model.change_admin_token(&token.id, never).await.unwrap();
    assert_eq!(
        (changed.name.as_str(), changed.expires_ms),
        ("writer", None)
    );
    let none = TokenChange {
        scopes: Some(Vec::new()),
        ..TokenChange::default()
    };
    let refused = model.change_admin_token(&token.id, none).await;
    assert!(matches!(refused, Err(crate::Error::InvalidValue(_))));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_refused_by_the_other_nodes() {
    let world = world().await;
    let here = Model::open(world.nodes[0].clone()).await.unwrap();
    let there = Model::open(world.nodes[1].clone()).await.unwrap();
    let (token, text) = here.create_admin_token(reader(None)).await.unwrap();
    let admitted = there.admit_admin_token(text.expose()).await.unwrap();
    assert_eq!(admitted, Some(token.clone()));
    here.revoke_admin_token(&token.id).await.unwrap();
    assert_eq!(here.admit_admin_token(text.expose()).await, Ok(None));
    there.refresh_all().await.unwrap();
    assert_eq!(there.admit_admin_token(text.expose()).await, Ok(None));
    let again = here.revoke_admin_token(&token.id).await;
    assert_eq!(again, Err(crate::Error::NoSuchToken));
}
