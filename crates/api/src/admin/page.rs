//! Pages of lists: a limit, and the name after which the next page begins.

use super::answer::Refusal;
use super::types::Page;

/// The number of items in a page if the request names none, and the largest that it may name.
pub(super) const MAX_ITEMS: usize = 1000;

/// Returns the page of `items` that begins after the item named `after`. The items are sorted by
/// name, so that a page begins where the former ended, whatever came or went meanwhile.
pub(super) fn page<T>(
    items: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> &str,
    limit: Option<usize>,
    after: Option<&str>,
) -> Result<Page<T>, Refusal> {
    let limit = limit.unwrap_or(MAX_ITEMS);
    if !(1..=MAX_ITEMS).contains(&limit) {
        return Err(Refusal::invalid(format!(
            "limit: {limit} is not 1 to {MAX_ITEMS}"
        )));
    }
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
