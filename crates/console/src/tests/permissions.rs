//! Permissions of access keys in a bucket's settings: one form gives some, another one saves all.

use archipel_model::Permissions;

use super::{Site, logged_in};

const SETTINGS: &str = "/buckets/photos/settings";

/// Returns the name of the change that the form for a named key asks for.
async fn change_for_a_named_key(site: &Site) -> String {
    let page = site.get(SETTINGS).await.text;
    let (before, _) = page.split_once("id=\"grant-key\"").unwrap();
    let (_, value) = before.rsplit_once("name=\"change\" value=\"").unwrap();
    value.split('"').next().unwrap().to_owned()
}

/// The form shows boxes that are checked by default, and not what the key has.
#[tokio::test]
async fn giving_permissions_takes_none_away() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let key = site.model.create_access_key("second").await.unwrap();
    let post = async |change: &str, checked: &str| {
        let form = format!("change={change}&key={}{checked}", key.id);
        let reply = site.post(SETTINGS, &form).await;
        assert_eq!(reply.header("location"), SETTINGS, "{}", reply.text);
        let bucket = site.model.bucket("photos").unwrap().unwrap();
        let Permissions { read, write, owner } = bucket.permissions(&key);
        (read, write, owner)
    };
    let give = change_for_a_named_key(&site).await;
    assert_eq!(post(&give, "&owner=on").await, (false, false, true));
    let given = post(&give, "&read=on&write=on").await;
    assert_eq!(given, (true, true, true));
    // The form beside a key shows what it has.
    assert_eq!(post("grant", "&read=on").await, (true, false, false));
}
