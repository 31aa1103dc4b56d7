//! Errors, as the pages that tell of them.

use askama::Template;
use axum::body::Body;
use axum::response::{IntoResponse, Redirect};
use http::{Response, StatusCode};

use crate::render::html;

/// The code of a change of what is not any more as the client saw it: here and in the admin API.
pub const CHANGED: &str = "Changed";

/// Something that could not be done, and why.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The status of the answer.
    pub status: StatusCode,
    /// The stable name of the error.
    pub code: String,
    /// The problem and its remedy, for people.
    pub detail: String,
}

#[derive(Template)]
#[template(path = "fault.html")]
struct FaultPage<'a> {
    fault: &'a Fault,
}

impl Fault {
    fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Fault {
        Fault {
            status,
            code: code.into(),
            detail: detail.into(),
        }
    }

    /// Makes the fault of a request that makes no sense.
    pub fn invalid(detail: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, "InvalidRequest", detail)
    }

    /// Makes the fault of a form that asks for a change which its page does not offer.
    pub fn unknown_change(change: &str) -> Fault {
        Fault::invalid(format!("there is no change {change:?}"))
    }

    /// Makes the fault of a request that is about an object and names none. S3 would take it for one about the bucket.
    pub fn no_object() -> Fault {
        Fault::invalid("the request names no object")
    }

    /// Makes the fault of a change of a text that is not the one any more which the page showed.
    pub fn changed() -> Fault {
        let detail = "this was changed after the page had shown it: look at it again, and repeat your change there";
        Fault::new(StatusCode::PRECONDITION_FAILED, CHANGED, detail)
    }

    /// Makes the fault of a form that never ends.
    pub fn late() -> Fault {
        let detail = "the form took too long";
        Fault::new(StatusCode::REQUEST_TIMEOUT, "Timeout", detail)
    }

    /// Makes the fault of a defect of the console.
    pub fn internal(error: &dyn std::fmt::Display) -> Fault {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Fault::new(status, "InternalError", error.to_string())
    }

    /// Makes the fault of a request that another site may have made the browser send.
    pub fn forged() -> Fault {
        let detail = "this request did not come from a page of the console, or the page is of an earlier \
            login: go back, reload the page, and try again";
        Fault::new(StatusCode::FORBIDDEN, "Forged", detail)
    }

    /// Makes the fault of a token that does not count any more.
    pub fn ended() -> Fault {
        Fault::new(StatusCode::UNAUTHORIZED, "Unauthorized", "log in again")
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response<Body> {
        if self.status == StatusCode::UNAUTHORIZED {
            return Redirect::to("/login").into_response();
        }
        let mut answer = html(&FaultPage { fault: &self });
        *answer.status_mut() = self.status;
        answer
    }
}

/// Returns the answer to a path that does not exist.
pub async fn nothing_here() -> Response<Body> {
    let detail = "there is no such page";
    Fault::new(StatusCode::NOT_FOUND, "NoSuchPage", detail).into_response()
}
