//! Asking nodes, this one too, for pages of the partitions that they hold.

use std::sync::Arc;

use archipel_base::{BlockHash, NodeId};
use archipel_net::Class;
use archipel_storage::{ListQuery, RowReader};
use bytes::Bytes;

use super::serve::{MAX_PAGES, check_fence, read_page, warm};
use crate::data::Data;
use crate::data::driver::waiting::again_if_it_fails;
use crate::error::Error;
use crate::merge::{Page, wire};
use crate::node::epochs::{Check, in_time};
use crate::node::group::Group;
use crate::node::wire::{Address, ListCall, ListReply, PageCall, PageReply, method};

/// A request to one replica for a page of its partition.
pub(super) struct PageRequest {
    /// The node that holds the replica; `None` for this node.
    pub node: Option<NodeId>,
    /// The page that this node has itself.
    pub known: Option<Known>,
    /// The number of the part, the replica's index, and the round of the listing: see
    /// [`ListOutput::Ask`](crate::merge::ListOutput).
    pub part: usize,
    pub replica: usize,
    pub round: u32,
    address: Address,
    query: ListQuery,
    fence: Option<Bytes>,
}

/// A local page, which other replicas may have too.
#[derive(Clone)]
pub(super) struct Known {
    pub page: Arc<Page>,
    /// `None` if no other replica is asked the same.
    digest: Option<BlockHash>,
}

impl PageRequest {
    /// Returns a request of a part to the replica with this index in the part's group.
    pub fn new(
        group: &Group,
        part: usize,
        replica: usize,
        round: u32,
        query: ListQuery,
    ) -> Result<PageRequest, Error> {
        let member = group.member(replica)?;
        Ok(PageRequest {
            node: (!group.is_local(replica)).then_some(member.node.node),
            known: None,
            part,
            replica,
            round,
            address: group.address_of(replica)?,
            query,
            fence: None,
        })
    }

    /// Returns the request for a page that is read where this write fence is closed.
    pub fn fenced(self, fence: Option<Bytes>) -> PageRequest {
        PageRequest { fence, ..self }
    }

    /// Returns true if another replica is asked the same.
    pub fn is_same(&self, other: &PageRequest) -> bool {
        (self.part, self.round) == (other.part, other.round)
    }

    fn to_send(&self) -> PageCall {
        PageCall {
            address: self.address,
            query: wire::encode_query(&self.query).into(),
            known: self.known.as_ref().and_then(|known| known.digest),
            fence: self.fence.clone(),
        }
    }

    fn page(&self, reply: PageReply) -> Result<Arc<Page>, String> {
        match (reply, &self.known) {
            (PageReply::Page(bytes), _) => match wire::decode_page(&bytes) {
                Ok(page) => Ok(Arc::new(page)),
                Err(error) => Err(error.to_string()),
            },
            (PageReply::Same, Some(known)) => Ok(known.page.clone()),
            (PageReply::Same, None) => Err("the same page as one that was not sent".into()),
        }
    }
}

/// Asks one replica for a page, as [`ask_node`] does.
pub(crate) async fn ask(
    inner: &Arc<Data>,
    group: &Group,
    index: usize,
    query: ListQuery,
) -> Result<Option<Arc<Page>>, Error> {
    let request = PageRequest::new(group, 0, index, 0, query)?;
    let pages = ask_node(inner, request.node, &[request]).await?;
    // There is one page for each request.
    Ok(pages.map(|mut pages| pages.swap_remove(0)))
}

/// Asks a node all requests, and again for a while if that fails, because the listing waits for
/// other nodes meanwhile. Returns a page for each request, or `None` if the node knows a newer
/// layout.
pub(super) async fn ask_node(
    inner: &Arc<Data>,
    node: Option<NodeId>,
    requests: &[PageRequest],
) -> Result<Option<Vec<Arc<Page>>>, Error> {
    let directory = inner.peers.as_ref().map(|peers| &peers.directory);
    let is_away = || {
        let away = node.and_then(|node| Some(directory?.is_suspected(&node)));
        away.unwrap_or(false)
    };
    let mut pages = Vec::with_capacity(requests.len());
    while pages.len() < requests.len() {
        let left = &requests[pages.len()..];
        let first = &left[..left.len().min(MAX_PAGES)];
        let asked = || async move {
            match node {
                Some(node) => pages_there(inner, node, first).await,
                None => {
                    let here = pages_here(inner, first).await?;
                    Ok(here.map(|all| all.into_iter().map(|known| known.page).collect()))
                }
            }
        };
        match again_if_it_fails(&inner.options.times, is_away, asked).await? {
            Some(more) => pages.extend(more),
            None => return Ok(None),
        }
    }
    Ok(Some(pages))
}

/// Returns the pages of the first requests, at least one.
async fn pages_there(
    inner: &Data,
    node: NodeId,
    requests: &[PageRequest],
) -> Result<Option<Vec<Arc<Page>>>, Error> {
    let strange = |why: &str| Error::Unavailable(format!("{} lists: {why}", node.short()));
    let peers = inner.peers()?;
    let call = ListCall(requests.iter().map(PageRequest::to_send).collect());
    match peers.call(&node, method::LIST, Class::Small, &call).await? {
        ListReply::Pages(replies) => {
            if replies.is_empty() || replies.len() > requests.len() {
                return Err(strange("other pages than it was asked for"));
            }
            let pages = requests.iter().zip(replies);
            let pages = pages.map(|(request, reply)| request.page(reply));
            let pages: Result<_, String> = pages.collect();
            pages.map(Some).map_err(|why| strange(&why))
        }
        ListReply::Superseded(_) => {
            in_time(inner.learn_from(&node)).await?;
            Ok(None)
        }
    }
}

/// Returns pages of this node's own replicas; `None` if the layout changed meanwhile.
///
/// # Errors
/// [`Error::Unavailable`] if the store may not answer yet, or is another one by now: it was rolled
/// back.
pub(super) async fn pages_here(
    inner: &Data,
    requests: &[PageRequest],
) -> Result<Option<Vec<Known>>, Error> {
    if !are_in_force(inner, requests)? {
        return Ok(None);
    }
    let queries = requests.iter().map(|q| (q.query.clone(), q.fence.clone()));
    let (queries, hooks): (Vec<_>, _) = (queries.collect(), inner.replica.hooks());
    let read = move |rows: &RowReader<'_>| {
        let known = |(query, fence): &(ListQuery, Option<Bytes>)| {
            check_fence(rows, query.partition, fence.as_ref(), hooks)?;
            let page = read_page(rows, query)?;
            let digest = query.tombstones.then(|| wire::digest(&page));
            let page = Arc::new(page);
            Ok(Known { page, digest })
        };
        queries.iter().map(known).collect()
    };
    warm(inner.store(), requests.iter().map(|q| &q.query)).await;
    let pages = inner.store().read(read).await?;
    // If the epoch was superseded meanwhile, the pages may lack later writes. The store may also
    // have heard meanwhile that it was rolled back.
    Ok(are_in_force(inner, requests)?.then_some(pages))
}

/// Checks requests for this node's own replicas, as those of other nodes are checked: the store may
/// have been given another name since the caller took it for a replica. Returns false if a newer
/// layout is known.
///
/// # Errors
/// [`Error::Unavailable`] if one of them is not for a replica that may answer here.
fn are_in_force(inner: &Data, requests: &[PageRequest]) -> Result<bool, Error> {
    for request in requests {
        let why = match inner.epochs.check(&request.address) {
            Check::Pass => continue,
            Check::Superseded(_) => return Ok(false),
            Check::Unconfirmed => "this node does not know yet whether it was rolled back",
            Check::Learn | Check::NotHere | Check::TooOld => "the partition is not held here",
        };
        return Err(Error::Unavailable(why.into()));
    }
    Ok(true)
}
