//! The Rust example of the documentation, against a demo.

#[allow(dead_code, reason = "it is a program of its own")]
#[path = "../../../../docs/examples/k2v.rs"]
mod example;

use example::{Counter, K2v, Mailbox};

#[test]
fn rust_example_delivers_mails_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, info) = super::demo(&folder.path().join("data"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        example::run(&info).await.unwrap();
        let k2v = K2v::of_demo(&info).unwrap();
        let mails = Mailbox::new(&k2v, "INBOX").mails().await.unwrap();
        assert_eq!(mails, ["Hello", "Goodbye"]);
        let counter = Counter::new(&k2v, "visits", "paris");
        counter.add(1).await.unwrap();
        assert_eq!(counter.total().await.unwrap(), 6);
        let beta = k2v.read("flags", "beta").await.unwrap().unwrap();
        assert_eq!(beta.values, [Some(b"on".to_vec())]);
    });
}
