//! Blocks, and the nodes that have them.

use archipel_base::BlockHash;
use http::StatusCode;
use serde_json::json;

use super::{OK, admin, get, make_bucket};

#[tokio::test]
async fn a_block_is_found_with_what_refers_to_it() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let model = &admin.model;
    let bucket = model.bucket("photos").unwrap().unwrap();
    let content = vec![7; 200_000];
    let mut writer = model.begin_object(&bucket, "cat.jpg").unwrap();
    writer.write(content.clone().into()).await.unwrap();
    let meta = archipel_model::ObjectMeta::default();
    let always = archipel_model::Condition::Always;
    writer.finish(meta, always).await.unwrap();
    let hash = BlockHash::of(&content).to_string();
    let (status, block) = get(&admin, &format!("/v1/blocks/{hash}")).await;
    assert_eq!(status, OK, "{block}");
    assert_eq!(
        block["used_by"],
        json!(["object photos/cat.jpg"]),
        "{block}"
    );
    assert_eq!(
        (&block["bytes"], &block["lost"], &block["nodes"][0]["copy"]),
        (&json!(200_000), &json!(false), &json!("good"))
    );
    let none = BlockHash::of(b"nothing").to_string();
    let (status, block) = get(&admin, &format!("/v1/blocks/{none}")).await;
    assert_eq!((status, &block["used_by"]), (OK, &json!([])));
    assert_eq!(
        (&block["lost"], &block["nodes"][0]["copy"]),
        (&json!(false), &json!("unneeded"))
    );
    for bad in ["0badcafe", &hash[1..], "x"] {
        let (status, _) = get(&admin, &format!("/v1/blocks/{bad}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
}
