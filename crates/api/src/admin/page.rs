//! Pages of lists: a limit, and the name after which the next page begins.

use std::sync::Arc;

use archipel_model::Model;
use archipel_model::identity::Entity;

use super::answer::Refusal;
use super::types::Page;

/// The number of items in a page if the request names none, and the largest that it may name.
pub(super) const MAX_ITEMS: usize = 1000;

/// Returns the number of items in a page: `limit`, or `usual` if the request names none.
pub(super) fn size(limit: Option<usize>, usual: usize) -> Result<usize, Refusal> {
    let limit = limit.unwrap_or(usual);
    match (1..=MAX_ITEMS).contains(&limit) {
        true => Ok(limit),
        false => {
            let why = format!("limit: {limit} is not 1 to {MAX_ITEMS}");
            Err(Refusal::invalid(why))
        }
    }
}

/// Returns the page of `items` that begins after the item named `after`. The items are sorted by
/// name, so that a page begins where the former ended, whatever came or went meanwhile.
pub(super) fn page<T>(
    items: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> &str,
    limit: Option<usize>,
    after: Option<&str>,
) -> Result<Page<T>, Refusal> {
    let limit = size(limit, MAX_ITEMS)?;
    let mut items = items.into_iter();
    let mut page = Page {
        items: Vec::new(),
        next: None,
    };
    for item in items.by_ref() {
        if after.is_some_and(|after| name(&item) <= after) {
            continue;
        }
        if page.items.len() == limit {
            page.next = page.items.last().map(|item| name(item).to_owned());
            break;
        }
        page.items.push(item);
    }
    Ok(page)
}

/// Returns a page of the entities of a kind that are wanted, by name.
pub(super) fn entities<E: Entity>(
    model: &Model,
    is_wanted: impl Fn(&E) -> bool,
    limit: Option<usize>,
    after: Option<&str>,
) -> Result<Page<Arc<E>>, Refusal> {
    let mut entities = model.entities::<E>()?;
    entities.retain(|entity| is_wanted(entity));
    // The model sorts them without regard to case.
    entities.sort_by(|a, b| a.name().cmp(b.name()));
    page(entities, |entity| entity.name(), limit, after)
}

impl<T> Page<T> {
    /// Returns the page with each item described.
    pub(super) fn map<U>(self, describe: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(describe).collect(),
            next: self.next,
        }
    }

    /// Returns the page with each item described, or the first error.
    pub(super) fn try_map<U>(
        self,
        describe: impl FnMut(T) -> Result<U, Refusal>,
    ) -> Result<Page<U>, Refusal> {
        let items = self.items.into_iter().map(describe);
        Ok(Page {
            items: items.collect::<Result<_, _>>()?,
            next: self.next,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_one_another_and_hold_everything_once() {
        let all: Vec<String> = (0..25).map(|n| format!("{n:02}")).collect();
        let (mut seen, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = page(all.clone(), |s| s, Some(10), after.as_deref()).unwrap();
            assert!(page.items.len() <= 10 && !page.items.is_empty());
            seen.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn a_page_that_ends_with_the_list_names_no_next() {
        let all = ["a", "b"].map(String::from);
        let page = page(all, |s| s, Some(2), None).unwrap();
        assert_eq!((page.items.len(), page.next), (2, None));
    }

    #[test]
    fn limits_out_of_bounds_are_refused() {
        for limit in [0, MAX_ITEMS + 1] {
            assert!(page(Vec::<String>::new(), |s| s, Some(limit), None).is_err());
        }
    }
}
