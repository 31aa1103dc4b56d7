// TEMPORARY STUB (lead): to type-check; to be replaced by helper merge.
#![allow(missing_docs)]
use crate::register::Quorums;
use archipel_storage::{ListQuery, Listing};
pub mod wire {
    use super::*;
    pub fn encode_query(_q: &ListQuery) -> Vec<u8> {
        vec![]
    }
    pub fn decode_query(_b: &[u8]) -> Result<ListQuery, archipel_base::codec::DecodeError> {
        Err(archipel_base::codec::DecodeError::Empty)
    }
    pub fn encode_page(_q: &Listing) -> Vec<u8> {
        vec![]
    }
    pub fn decode_page(_b: &[u8]) -> Result<Listing, archipel_base::codec::DecodeError> {
        Err(archipel_base::codec::DecodeError::Empty)
    }
}
pub enum ListOutput {
    Ask {
        replica: usize,
        round: u32,
        query: ListQuery,
    },
    Done(Listing),
    Failed,
}
pub struct ListMerge;
impl ListMerge {
    pub fn new(_q: Quorums, _query: ListQuery) -> (ListMerge, Vec<ListOutput>) {
        (ListMerge, vec![])
    }
    pub fn on_page(&mut self, _r: usize, _round: u32, _p: Listing) -> Vec<ListOutput> {
        vec![]
    }
    pub fn on_failure(&mut self, _r: usize, _round: u32) -> Vec<ListOutput> {
        vec![]
    }
}
