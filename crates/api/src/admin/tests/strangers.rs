//! Clients that guess tokens.

use std::net::IpAddr;

use archipel_cluster::World;
use bytes::Bytes;
use tokio::time::Instant;

use super::*;

/// Sends a request with a token from an address.
async fn ask_from(service: &Service, peer: IpAddr, token: &str) -> StatusCode {
    let request = Request::get("/v1/tokens/self")
        .header("authorization", format!("Bearer {token}"))
        .body(Full::<Bytes>::default());
    let answer = audited::handle(service, Trust::Token, Some(peer), request.unwrap());
    answer.await.status()
}

#[tokio::test]
async fn many_wrong_tokens_of_an_address_are_answered_slowly() {
    let service = Service::new(Arc::new(admin().await));
    let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    tokio::time::pause();
    let begun = Instant::now();
    for _ in 0..1000 {
        let status = ask_from(&service, one, "wrong").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
    assert!(begun.elapsed() > Duration::from_secs(10));
    // Neither a token that counts nor another address waits.
    let begun = Instant::now();
    assert_eq!(ask_from(&service, one, TOKEN).await, StatusCode::NOT_FOUND);
    ask_from(&service, other, "wrong").await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// One node of three asks the others for tokens that it does not know.
#[tokio::test(start_paused = true)]
async fn many_invented_tokens_of_an_address_are_not_looked_up() {
    let latency = Duration::from_millis(5);
    let hooks = archipel_model::HOOKS;
    let world = World::new(3, 3, latency, 1, hooks).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    models[0].refresh_all().await.unwrap();
    let service = Service::new(Arc::new(admin_of(models[0].clone(), &[])));
    let peer = "192.0.2.1".parse().unwrap();
    let mut refused = 0;
    for number in 0..1000 {
        let token = format!("archipel_invented{number:04}_secret");
        let status = ask_from(&service, peer, &token).await;
        refused += u32::from(status == StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            status == StatusCode::UNAUTHORIZED || refused > 0,
            "{status}"
        );
    }
    // The clock of the limit is the real one.
    assert!(refused > 0);
}
