//! Hands the calls of other nodes to their handlers.

use std::fmt::Display;
use std::sync::{Arc, Weak};

use archipel_base::NodeId;
use archipel_base::codec::{self, Versioned};
use archipel_net::Stream;
use archipel_net::rpc::Service;
use async_trait::async_trait;
use bytes::Bytes;

use crate::cluster::Inner;
use crate::data::serve::{serve_fetch, serve_upload};
use crate::layout::Epoch;
use crate::node::wire::{CountersCall, CountersReply, method};

/// The service that answers other nodes. Ends with its cluster.
pub(crate) struct NodeService(pub Weak<Inner>);

impl NodeService {
    fn inner(&self) -> Result<Arc<Inner>, String> {
        self.0
            .upgrade()
            .ok_or_else(|| "this node is closing".into())
    }
}

fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, String> {
    codec::decode(bytes).map_err(text)
}

fn encode<T: Versioned>(reply: &T) -> Result<Bytes, String> {
    Ok(codec::encode(reply).into())
}

fn text(error: impl Display) -> String {
    error.to_string()
}

#[async_trait]
impl Service for NodeService {
    fn knows(&self, from: &NodeId) -> bool {
        self.inner().is_ok_and(|inner| inner.data.knows(from))
    }

    async fn call(&self, from: NodeId, name: &str, request: Bytes) -> Result<Bytes, String> {
        let inner = self.inner()?;
        let (data, upkeep) = (&inner.data, &inner.upkeep);
        // A node that is to join needs these.
        let is_open = matches!(
            name,
            method::GOSSIP | method::EPOCH | method::PROPOSE | method::FATE
        );
        if !is_open {
            inner.layouts.check_admitted(&from).await?;
        }
        // Requests for rows name their epoch, so that the replica itself refuses them.
        if let method::COUNTERS | method::FEED | method::RELAY = name {
            data.check_level().map_err(text)?;
        }
        match name {
            method::ROW => encode(&data.serve_row(from, decode(&request)?).await),
            method::ROWS => encode(&data.serve_rows(from, decode(&request)?).await),
            method::LIST => encode(&data.serve_list(from, decode(&request)?).await?),
            method::COUNTERS => {
                let CountersCall { partition, groups } = decode(&request)?;
                let counted = data.counters_here(partition, groups).await;
                encode(&CountersReply(counted.map_err(text)?))
            }
            method::FEED => encode(&data.serve_feed(decode(&request)?).await),
            method::RELAY => encode(&data.serve_relay(decode(&request)?).await),
            method::EPOCH => {
                data.hear_epoch(from, &request);
                data.epochs.settled().await.map_err(text)?;
                let epoch = data.epochs.current().ok_or("this node knows no layout")?;
                Ok(epoch.encode().into())
            }
            method::PROPOSE => {
                let epoch = Epoch::decode(&request).map_err(text)?;
                let promised = data.promise_first(from, epoch).await;
                promised.map(|()| Bytes::new())
            }
            method::FATE => encode(&data.epochs.fate(&decode(&request)?).await?),
            method::VERIFY => encode(&upkeep.serve_verify(decode(&request)?)),
            method::DIGEST => encode(&upkeep.serve_digests(decode(&request)?).await?),
            method::MAINTENANCE => {
                let status = upkeep.serve_maintenance(decode(&request)?).await;
                encode(&status.map_err(text)?)
            }
            method::PROGRESS => encode(&inner.layouts.serve_progress(&decode(&request)?)),
            method::GOSSIP => data.gossip(from, request).await,
            method::NOTICE => match data.hear_notice(request).await {
                true => Ok(Bytes::new()),
                false => Err("the notice was not acted on".into()),
            },
            method::IN_USE => {
                let yes = u8::from(data.answer_in_use_check(&request));
                Ok(vec![yes].into())
            }
            other => upkeep.serve_anti_entropy(from, other, request).await,
        }
    }

    async fn stream(&self, from: NodeId, name: &str, stream: Stream) -> Result<(), String> {
        let inner = self.inner()?;
        let data = &inner.data;
        inner.layouts.check_admitted(&from).await?;
        match name {
            method::UPLOAD => serve_upload(data, from, stream).await,
            method::FETCH => serve_fetch(data, from, stream).await,
            other => Err(format!("no such stream: {other}")),
        }
    }
}

#[cfg(test)]
mod tests;
