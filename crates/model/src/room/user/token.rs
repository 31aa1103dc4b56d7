//! The fencing token in a user's row: one operation at a time divides the user's quota.

use std::sync::Arc;

use crate::Model;
use crate::bucket::FencingToken;
use crate::error::Error;
use crate::fence::TOKEN_MS;
use crate::identity::{Changed, User};

impl Model {
    /// Returns true if an operation has the token.
    pub(super) fn is_taken(&self, user: &User) -> bool {
        let taken = user.token.taken_ms;
        taken.is_some_and(|taken| self.now_ms().abs_diff(taken) <= TOKEN_MS)
    }

    /// Takes the fencing token in a user's row, and makes another change of the row with it.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`]; [`Error::Conflict`] if another operation has the token.
    pub(super) async fn take_user_token(
        &self,
        name: &str,
        change: impl Fn(&mut User) + Send + Sync,
    ) -> Result<Changed<Arc<User>>, Error> {
        let now = self.now_ms();
        self.change_entity::<User>(name, move |user| {
            if self.is_taken(user) {
                return Err(Error::Conflict);
            }
            user.token = FencingToken {
                number: user.token.number + 1,
                taken_ms: Some(now),
            };
            change(user);
            Ok(())
        })
        .await
    }

    /// Releases the token, unless another operation has taken a later one. It times out if this
    /// fails. `is_divided` says that no division is due any more.
    pub(super) async fn release_user_token(&self, held: &User, is_divided: bool) {
        let number = held.token.number;
        let released = self.change_entity::<User>(&held.name, move |user| {
            if user.token.number == number {
                user.token.taken_ms = None;
                user.is_undivided &= !is_divided;
            }
            Ok(())
        });
        if let Err(error) = released.await {
            tracing::debug!(%error, user = held.name, "a fencing token is left to time out");
        }
    }
}
