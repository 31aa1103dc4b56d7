//! Brings rows to single replicas.

use std::sync::Arc;

use archipel_base::{Stamp, boxed};
use archipel_storage::{RowKey, Value};

use super::Data;
use crate::error::Error;
use crate::node::group::Group;
use crate::node::wire::RowCall;
use crate::register::{Answer, Request};

impl Data {
    /// Brings a row to all of its reachable replicas, not only to a quorum. Returns true if all
    /// replicas have it now.
    #[boxed]
    pub async fn replicate(self: &Arc<Data>, key: &RowKey) -> Result<bool, Error> {
        let version = self.read_whole(key, true).await?;
        if version.stamp == Stamp::ZERO {
            return Ok(true);
        }
        let group = self.group(key.partition)?;
        let behind = group.quorums.all().iter().map(|index| {
            let (group, version) = (&group, &version);
            async move {
                let held = self.ask_for_stamp(group, index, key).await?;
                if held < version.stamp {
                    let write = Request::Write {
                        version: version.clone(),
                        guarded: false,
                    };
                    let answer = self.ask_about(group, index, key, write).await?;
                    return Ok(answer == Answer::Accepted);
                }
                Ok::<_, Error>(true)
            }
        });
        let mut have_it = true;
        for done in futures_util::future::join_all(behind).await {
            // A quorum has the row. An unreachable replica gets it later.
            match done {
                Ok(has_it) => have_it &= has_it,
                Err(error) => {
                    have_it = false;
                    tracing::debug!(%error, "a row cannot be written to a replica now");
                }
            }
        }
        Ok(have_it)
    }

    async fn ask_for_stamp(
        self: &Arc<Data>,
        group: &Group,
        index: usize,
        key: &RowKey,
    ) -> Result<Stamp, Error> {
        let read = Request::Read { with_value: false };
        match self.ask_about(group, index, key, read).await? {
            Answer::Found { version, .. } => Ok(version.stamp),
            _ => Err(Error::Unavailable("the layout changed meanwhile".into())),
        }
    }

    pub(super) async fn ask_about(
        self: &Arc<Data>,
        group: &Group,
        index: usize,
        key: &RowKey,
        request: Request<Value>,
    ) -> Result<Answer<Value>, Error> {
        let call = RowCall {
            background: true,
            ..RowCall::plain(group.address_of(index)?, key.key.clone(), request)
        };
        self.ask(group, index, call, None).await
    }
}
