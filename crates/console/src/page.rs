//! The frame around the pages of a login.

use axum::body::Body;
use http::Response;

use crate::fault::Fault;
use crate::request::User;

/// The frame around a page.
pub struct Frame {
    /// The name of the token.
    pub user: String,
    /// The secret for forms.
    pub csrf: String,
    place: &'static str,
}

impl Frame {
    /// Returns the frame of a page at a place in the menu.
    pub fn new(user: &User, place: &'static str) -> Frame {
        Frame {
            user: user.session.name.clone(),
            csrf: user.session.csrf.clone(),
            place,
        }
    }

    /// Returns whether the page is at this place of the menu.
    pub fn is(&self, place: &str) -> bool {
        self.place == place
    }
}

/// The answer of a handler: a page, or what went wrong.
pub type Shown = Result<Response<Body>, Fault>;
