//! Sessions of what is gone: their clients are as unknown as strangers.

use super::*;
use crate::control::tests::world;

/// More requests than there are look-ups at once, of all kinds.
const MANY: usize = 200;

/// A token can outlive all that it was made from. Each request with it looks the rows up again.
#[tokio::test(start_paused = true)]
async fn sessions_of_what_is_gone_take_no_look_ups_of_clients() {
    let world = world().await;
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    let model = &models[0];
    let role = make_role(model, "role", &allow("s3:*")).await;
    let parent = model.create_access_key("parent").await.unwrap();
    let token = session(model, &parent, &role, None).await;
    let key = model.key_of_token(&token).await.unwrap();
    assert!(model.subject(&key).await.unwrap().is_some());
    model.delete_access_key(&parent.id).await.unwrap();
    let flood = (0..MANY).map(|_| {
        let (model, key) = (model.clone(), key.clone());
        tokio::spawn(async move { model.subject(&key).await.map(|found| found.is_some()) })
    });
    let flood: Vec<_> = flood.collect();
    // All of them have begun, and none has its answer.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(model.find_bucket("unknown").await.unwrap().is_none());
    let mut busy = 0;
    for asked in flood {
        match asked.await.unwrap() {
            Ok(counts) => assert!(!counts),
            Err(Error::Busy(_)) => busy += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(busy > 0, "there were not enough of them");
}
