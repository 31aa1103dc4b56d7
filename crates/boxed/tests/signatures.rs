//! The signatures that are boxed: borrowed arguments, methods of an `Arc`, types with parameters.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use archipel_boxed::boxed;
use futures_util::FutureExt;

struct Shelf(Vec<String>);

struct Named<'a>(&'a str);

impl Shelf {
    #[boxed]
    async fn find(&self, name: &str) -> Option<&String> {
        self.0.iter().find(|held| *held == name)
    }

    #[boxed]
    async fn add(&mut self, name: Named<'_>) {
        self.0.push(name.0.to_owned());
    }

    #[boxed]
    async fn count(self: &Arc<Shelf>) -> usize {
        self.0.len()
    }
}

#[boxed]
async fn joined<'a, T: Display + Send + Sync>(first: &'a T, second: &T) -> (&'a T, String) {
    (first, format!("{first}{second}"))
}

/// Counts down by awaiting itself, which an `async fn` in no box cannot.
#[boxed]
async fn steps(left: usize) -> usize {
    match left {
        0 => 0,
        more => 1 + steps(more - 1).await,
    }
}

#[test]
fn a_boxed_function_does_what_is_written() {
    let mut shelf = Shelf(Vec::new());
    shelf.add(Named("a")).now_or_never().unwrap();
    let found = shelf.find("a").now_or_never().unwrap();
    assert_eq!(found.map(String::as_str), Some("a"));
    let missing = shelf.find("b").now_or_never().unwrap();
    assert_eq!(missing, None);
    assert_eq!(Arc::new(shelf).count().now_or_never(), Some(1));
    let both = joined(&1, &2).now_or_never();
    assert_eq!(both, Some((&1, "12".to_owned())));
    assert_eq!(steps(3).now_or_never(), Some(3));
}

#[test]
fn a_boxed_future_is_of_the_type_that_the_attribute_names() {
    let boxed: Pin<Box<dyn Future<Output = usize> + Send>> = steps(1);
    assert_eq!(boxed.now_or_never(), Some(1));
}
