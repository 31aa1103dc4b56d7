//! Calls of another node of the cluster: any bytes to any method, and then requests of a client. The node never
//! panics.
use crate::endpoints::{Service, Unsigned, on_endpoints};
use archipel_base::NodeId;
use bytes::Bytes;

const METHODS: &[&str] = &[
    "row",
    "rows",
    "list",
    "counters",
    "feed",
    "relay",
    "epoch",
    "propose",
    "fate",
    "gossip",
    "verify",
    "digest",
    "maintenance",
    "notice",
    "in_use",
    "rollback.past",
    "anti_entropy.compare",
    "anti_entropy.windows",
    "anti_entropy.stamps",
    "anti_entropy.rows",
    "anti_entropy.wake",
    "tombstone_gc.floor",
    "tombstone_gc.purged",
];

fn get(path: &str, query: &str) -> Unsigned {
    Unsigned {
        service: Service::S3,
        method: "GET".into(),
        path: path.into(),
        query: query.into(),
        headers: Vec::new(),
        body: Bytes::new(),
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Some((method, call)) = bytes.split_first() else {
        return;
    };
    let method = METHODS[usize::from(*method) % METHODS.len()];
    on_endpoints(async |endpoints| {
        let call = Bytes::copy_from_slice(call);
        let refused = endpoints.node.call(NodeId::default(), method, call).await;
        if let Err(why) = refused {
            assert!(!why.starts_with("no such"), "{why}");
            return;
        }
        // It may have stored damage, but no request may panic over that.
        endpoints.send(get("/bucket/a", "")).await;
        endpoints.send(get("/bucket", "list-type=2")).await;
        endpoints.send(get("/bucket", "versions=")).await;
    });
}
