//! Asking nodes for pages of the partitions that they hold, this one too.

use std::sync::Arc;

use archipel_base::{BlockHash, NodeId};
use archipel_net::Class;
use archipel_storage::{ListQuery, RowReader};

use super::serve::{MAX_QUESTIONS, read_page, warm};
use crate::drive::waiting::again_if_it_fails;
use crate::error::Error;
use crate::group::Group;
use crate::inner::Inner;
use crate::merge::{Page, wire};
use crate::wire::{Address, ListCall, ListQuestion, ListReply, PageReply, method};

/// One replica is asked for a page of its partition.
pub(super) struct Question {
    /// The node that holds the replica; none for this one.
    pub node: Option<NodeId>,
    /// What this node has itself.
    pub known: Option<Known>,
    /// Whose replica it is, and in which round of its listing: see [`ListOutput::Ask`](crate::merge::ListOutput).
    pub part: usize,
    pub replica: usize,
    pub round: u32,
    address: Address,
    query: ListQuery,
}

/// A page that is here, and what others are asked whether they have it too.
#[derive(Clone)]
pub(super) struct Known {
    pub page: Arc<Page>,
    /// None where no other replica is asked the same.
    digest: Option<BlockHash>,
}

impl Question {
    /// Of a part by its number, and the replica by its place in the part's group.
    pub fn new(
        group: &Group,
        part: usize,
        replica: usize,
        round: u32,
        query: ListQuery,
    ) -> Result<Question, Error> {
        let unknown = || Error::Unavailable("the replica is not known".into());
        let member = group.members.get(replica).ok_or_else(unknown)?;
        Ok(Question {
            node: (!group.is_local(replica)).then_some(member.node.node),
            known: None,
            part,
            replica,
            round,
            address: group.address(replica).ok_or_else(unknown)?,
            query,
        })
    }

    /// Whether another replica is asked the same.
    pub fn is_same(&self, other: &Question) -> bool {
        (self.part, self.round) == (other.part, other.round)
    }

    fn to_send(&self) -> ListQuestion {
        ListQuestion {
            address: self.address,
            query: wire::encode_query(&self.query).into(),
            known: self.known.as_ref().and_then(|known| known.digest),
        }
    }

    fn page(&self, reply: PageReply) -> Result<Arc<Page>, String> {
        match (reply, &self.known) {
            (PageReply::Page(bytes), _) => match wire::decode_page(&bytes) {
                Ok(page) => Ok(Arc::new(page)),
                Err(error) => Err(error.to_string()),
            },
            (PageReply::Same, Some(known)) => Ok(known.page.clone()),
            (PageReply::Same, None) => Err("the same as what nobody told".into()),
        }
    }
}

/// Asks one replica for a page, as [`ask_node`] does.
pub(crate) async fn ask(
    inner: &Arc<Inner>,
    group: &Group,
    place: usize,
    query: ListQuery,
) -> Result<Option<Arc<Page>>, Error> {
    let question = Question::new(group, 0, place, 0, query)?;
    let pages = ask_node(inner, question.node, &[question]).await?;
    // One for each question.
    Ok(pages.map(|mut pages| pages.swap_remove(0)))
}

/// Asks a node all questions; again for a while if that fails, as others are waited for meanwhile. A page for each of them,
/// or `None` if it knows a newer layout.
pub(super) async fn ask_node(
    inner: &Arc<Inner>,
    node: Option<NodeId>,
    questions: &[Question],
) -> Result<Option<Vec<Arc<Page>>>, Error> {
    let directory = inner.peers.as_ref().map(|peers| &peers.directory);
    let is_away = || {
        let away = node.and_then(|node| Some(directory?.is_suspected(&node)));
        away.unwrap_or(false)
    };
    let mut pages = Vec::with_capacity(questions.len());
    while pages.len() < questions.len() {
        let left = &questions[pages.len()..];
        let first = &left[..left.len().min(MAX_QUESTIONS)];
        let asked = || async move {
            match node {
                Some(node) => pages_there(inner, node, first).await,
                None => {
                    let here = pages_here(inner, first).await?;
                    Ok(here.map(|all| all.into_iter().map(|known| known.page).collect()))
                }
            }
        };
        match again_if_it_fails(is_away, asked).await? {
            Some(more) => pages.extend(more),
            None => return Ok(None),
        }
    }
    Ok(Some(pages))
}

/// Pages of the first questions, at least one.
async fn pages_there(
    inner: &Inner,
    node: NodeId,
    questions: &[Question],
) -> Result<Option<Vec<Arc<Page>>>, Error> {
    let strange = |why: &str| Error::Unavailable(format!("{} lists: {why}", node.short()));
    let unknown = || Error::Unavailable("this node is in no cluster".into());
    let peers = inner.peers.as_ref().ok_or_else(unknown)?;
    let call = ListCall(questions.iter().map(Question::to_send).collect());
    match peers.call(&node, method::LIST, Class::Small, &call).await? {
        ListReply::Pages(replies) => {
            if replies.is_empty() || replies.len() > questions.len() {
                return Err(strange("not what was asked for"));
            }
            let pages = questions.iter().zip(replies);
            let pages = pages.map(|(question, reply)| question.page(reply));
            let pages: Result<_, String> = pages.collect();
            pages.map(Some).map_err(|why| strange(&why))
        }
        ListReply::Superseded(_) => {
            inner.learn_from(&node).await?;
            Ok(None)
        }
    }
}

/// Pages of this node's own replicas; `None` if the layout changed meanwhile.
pub(super) async fn pages_here(
    inner: &Inner,
    questions: &[Question],
) -> Result<Option<Vec<Known>>, Error> {
    let epoch = inner.epochs.current();
    if !epoch.is_some_and(|epoch| inner.epochs.may_answer(&epoch)) {
        return Err(Error::Unavailable(
            "this node has not heard the others yet".into(),
        ));
    }
    let queries: Vec<_> = questions.iter().map(|q| q.query.clone()).collect();
    let read = move |rows: &RowReader<'_>| {
        let known = |query: &ListQuery| {
            let page = read_page(rows, query)?;
            let digest = query.tombstones.then(|| wire::digest(&page));
            let page = Arc::new(page);
            Ok(Known { page, digest })
        };
        queries.iter().map(known).collect()
    };
    warm(inner.store(), questions.iter().map(|q| &q.query)).await;
    let pages = inner.store().read(read).await?;
    // Read under an epoch that was superseded meanwhile, they may lack what was written since.
    let number = inner.epochs.number();
    let in_force = questions.iter().all(|q| q.address.epoch == number);
    Ok(in_force.then_some(pages))
}
