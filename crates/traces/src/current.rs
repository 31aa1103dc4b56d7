//! The span that a task works for. Tasks that a request starts must [`carry`] it along.

use std::future::Future;
use std::sync::Arc;

use crate::record::{Kind, Record};
use crate::span::{Live, Span};

tokio::task_local! {
    static CURRENT: Option<Arc<Live>>;
}

fn current() -> Option<Arc<Live>> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Makes a future for a task of its own work for the span that this task works for.
pub fn carry<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    scope(None, future)
}

/// Begins a span below the one that this task works for. It is not recorded if there is none.
pub fn child(kind: Kind, name: &str) -> Span {
    current().map_or_else(Span::default, |live| live.child(kind, name))
}

/// Changes the record of the span that this task works for, if there is one.
pub fn describe(change: impl FnOnce(&mut Record)) {
    let _ = CURRENT.try_with(|live| {
        if let Some(live) = live {
            live.describe(change);
        }
    });
}

/// Keeps the span that this task works for from being recorded: it is of no interest.
pub fn forget() {
    let _ = CURRENT.try_with(|live| {
        if let Some(live) = live {
            live.forget();
        }
    });
}

pub(crate) fn scope<F: Future>(
    live: Option<Arc<Live>>,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(live.or_else(current), future)
}

pub(crate) fn enter<T>(live: Option<Arc<Live>>, function: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(live.or_else(current), function)
}
