//! Errors of IAM and STS: a code, its HTTP status, a message.
//!
//! Source: AWS, "Common errors" in the IAM API reference, and the errors of each action.

use archipel_access::Malformed;
use archipel_model::Error;
use http::StatusCode;

use crate::s3::error::{Code, S3Error};

/// An error as a client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IamError {
    pub code: &'static str,
    pub status: StatusCode,
    pub message: String,
    /// Details for the operator that a client must not see.
    pub cause: Option<String>,
}

/// The result of anything that a client asked for.
pub type IamResult<T> = Result<T, IamError>;

impl IamError {
    pub fn new(code: &'static str, status: StatusCode, message: impl Into<String>) -> IamError {
        IamError {
            code,
            status,
            message: message.into(),
            cause: None,
        }
    }

    /// Makes the error for a parameter that is missing or wrong.
    pub fn invalid(message: impl Into<String>) -> IamError {
        IamError::new("ValidationError", StatusCode::BAD_REQUEST, message)
    }

    /// Makes the error for a named thing that does not exist.
    pub fn none(message: impl Into<String>) -> IamError {
        IamError::new("NoSuchEntity", StatusCode::NOT_FOUND, message)
    }

    /// Makes the error for what is not implemented.
    pub fn not_implemented(what: &str) -> IamError {
        let message = format!("{what} is not implemented.");
        IamError::new("NotImplemented", StatusCode::NOT_IMPLEMENTED, message)
    }

    /// Makes the error for what the policies do not allow.
    pub fn denied(message: impl Into<String>) -> IamError {
        IamError::new("AccessDenied", StatusCode::FORBIDDEN, message)
    }

    /// Makes the error for a text that is no policy.
    pub fn malformed(why: &Malformed) -> IamError {
        let status = StatusCode::BAD_REQUEST;
        IamError::new("MalformedPolicyDocument", status, why.to_string())
    }
}

/// Returns what was found, or `None` if it is gone. Any other error stays one: a list that lacks
/// what cannot be read just now would be taken for the whole.
pub fn unless_gone<T>(found: Result<T, Error>) -> IamResult<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NoSuchEntity(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl From<Error> for IamError {
    fn from(error: Error) -> IamError {
        let say = |code, status| IamError::new(code, status, error.to_string());
        match &error {
            Error::NoSuchEntity(_) => say("NoSuchEntity", StatusCode::NOT_FOUND),
            Error::NoSuchAccessKey => {
                IamError::none("The Access Key with that id cannot be found.")
            }
            Error::EntityExists(_) => say("EntityAlreadyExists", StatusCode::CONFLICT),
            Error::EntityInUse(_) => say("DeleteConflict", StatusCode::CONFLICT),
            Error::LimitExceeded(_) => say("LimitExceeded", StatusCode::CONFLICT),
            Error::MalformedPolicy(_) => say("MalformedPolicyDocument", StatusCode::BAD_REQUEST),
            Error::InvalidName(_) | Error::InvalidValue(_) => {
                say("ValidationError", StatusCode::BAD_REQUEST)
            }
            Error::TooLarge => IamError::new(
                "PackedPolicyTooLarge",
                StatusCode::BAD_REQUEST,
                "The policies and tags of the session are too large.",
            ),
            Error::Conflict => IamError::new(
                "ConcurrentModification",
                StatusCode::CONFLICT,
                "Another request changes the same. Try again.",
            ),
            _ => S3Error::from(error).into(),
        }
    }
}

impl From<S3Error> for IamError {
    fn from(error: S3Error) -> IamError {
        let (code, status) = match error.code() {
            Code::InvalidAccessKeyId | Code::InvalidToken => {
                return IamError::new(
                    "InvalidClientTokenId",
                    StatusCode::FORBIDDEN,
                    "The security token included in the request is invalid.",
                );
            }
            Code::ExpiredToken => ("ExpiredToken", StatusCode::FORBIDDEN),
            Code::AuthorizationHeaderMalformed => ("IncompleteSignature", StatusCode::BAD_REQUEST),
            Code::RequestTimeTooSkewed => ("SignatureDoesNotMatch", StatusCode::FORBIDDEN),
            Code::InvalidURI => ("MalformedQueryString", StatusCode::BAD_REQUEST),
            Code::InternalError => ("InternalFailure", StatusCode::INTERNAL_SERVER_ERROR),
            Code::SlowDown => ("Throttling", StatusCode::BAD_REQUEST),
            other => (other.as_str(), other.status()),
        };
        IamError {
            cause: error.cause().map(str::to_owned),
            ..IamError::new(code, status, error.message())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_gone_is_left_out_of_a_list() {
        assert_eq!(unless_gone(Ok(1)).unwrap(), Some(1));
        let gone = Error::NoSuchEntity("gone".into());
        assert_eq!(unless_gone::<u8>(Err(gone)).unwrap(), None);
        let errors: [fn(String) -> Error; 2] = [Error::Unconfirmed, Error::Unavailable];
        for error in errors {
            assert!(unless_gone::<u8>(Err(error("later".into()))).is_err());
        }
    }
}
