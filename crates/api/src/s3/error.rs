//! S3's errors: a code, its HTTP status, a message, and the code's further elements.
//!
//! Source: AWS, "Error responses" in the S3 API reference.

use std::borrow::Cow;

use archipel_model::Marker;
use http::StatusCode;

use super::respond;
use super::xml::Writer;

/// Defines the codes: name, HTTP status, default message.
macro_rules! codes {
    ($($name:ident $status:literal $message:literal,)*) => {
        /// The code of an error, as S3 names it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Code {
            $(#[doc = $message] $name,)*
        }

        impl Code {
            /// Returns the name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => stringify!($name),)* }
            }

            /// Returns the HTTP status.
            pub fn status(self) -> StatusCode {
                let number: u16 = match self { $(Code::$name => $status,)* };
                StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }

            /// Returns the message for an error without a better one.
            fn message(self) -> &'static str {
                match self { $(Code::$name => $message,)* }
            }
        }
    };
}

codes! {
    AccessControlListNotSupported 400 "The bucket does not allow ACLs",
    AccessDenied 403 "Access Denied",
    AccessForbidden 403 "CORSResponse: This CORS request is not allowed.",
    AuthorizationHeaderMalformed 400 "The authorization header that you provided is not valid.",
    AuthorizationQueryParametersError 400 "The authorization query parameters that you provided are not valid.",
    BadDigest 400 "The Content-MD5 or checksum value that you specified did not match what the server received.",
    BadRequest 400 "Bad Request",
    BucketAlreadyExists 409 "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please select a different name and try again.",
    BucketAlreadyOwnedByYou 409 "Your previous request to create the named bucket succeeded and you already own it.",
    BucketNotEmpty 409 "The bucket you tried to delete is not empty.",
    ConditionalRequestConflict 409 "The conditional request cannot succeed due to a conflicting operation against this resource.",
    EntityTooLarge 400 "Your proposed upload exceeds the maximum allowed size.",
    EntityTooSmall 400 "Your proposed upload is smaller than the minimum allowed size.",
    ExpiredToken 400 "The provided token has expired.",
    IllegalVersioningConfigurationException 400 "The versioning configuration specified in the request is invalid.",
    IllegalLocationConstraintException 400 "The specified location constraint is incompatible with the region-specific endpoint this request was sent to.",
    IncompleteBody 400 "You did not provide the number of bytes specified by the Content-Length HTTP header.",
    InternalError 500 "We encountered an internal error. Please try again.",
    InvalidAccessKeyId 403 "The AWS access key ID that you provided does not exist in our records.",
    InvalidArgument 400 "Invalid Argument",
    InvalidBucketAclWithObjectOwnership 400 "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
    InvalidBucketAclWithBlockPublicAccessError 400 "Bucket cannot have public ACLs set with BlockPublicAccess enabled",
    InvalidBucketState 409 "The request is not valid with the current state of the bucket.",
    InvalidBucketName 400 "The specified bucket is not valid.",
    InvalidBucketOwnerAWSAccountID 400 "The value of the expected bucket owner parameter must be an AWS account ID.",
    InvalidChunkSizeError 403 "Only the last chunk is allowed to have a size less than 8192 bytes",
    InvalidEncryptionAlgorithmError 400 "The encryption request that you specified is not valid. The valid value is AES256.",
    InvalidDigest 400 "The Content-MD5 or checksum value that you specified is not valid.",
    InvalidLocationConstraint 400 "The specified location constraint is not valid.",
    InvalidObjectState 403 "The operation is not valid for the current state of the object.",
    InvalidPart 400 "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.",
    InvalidPartNumber 416 "The requested partnumber is not satisfiable",
    InvalidPartOrder 400 "The list of parts was not in ascending order. Parts must be ordered by part number.",
    InvalidPolicyDocument 400 "The content of the form does not meet the conditions specified in the policy document.",
    InvalidRange 416 "The requested range is not satisfiable",
    InvalidRedirectLocation 400 "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
    InvalidRequest 400 "Invalid Request",
    InvalidStorageClass 400 "The storage class you specified is not valid.",
    InvalidTag 400 "The tag provided was not a valid tag.",
    InvalidURI 400 "Couldn't parse the specified URI.",
    InvalidToken 400 "The provided token is malformed or otherwise not valid.",
    KeyTooLongError 400 "Your key is too long.",
    MalformedACLError 400 "The XML you provided was not well-formed or did not validate against our published schema",
    MalformedPolicy 400 "Policy has invalid content",
    MalformedPOSTRequest 400 "The body of your POST request is not well-formed multipart/form-data.",
    MalformedTrailerError 400 "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    MalformedXML 400 "The XML you provided was not well-formed or did not validate against our published schema.",
    MaxMessageLengthExceeded 400 "Your request was too big.",
    MaxPostPreDataLengthExceededError 400 "Your POST request fields preceding the upload file were too large.",
    MetadataTooLarge 400 "Your metadata headers exceed the maximum allowed metadata size.",
    MetadataConfigurationNotFound 404 "The metadata configuration was not found",
    MethodNotAllowed 405 "The specified method is not allowed against this resource.",
    MissingContentLength 411 "You must provide the Content-Length HTTP header.",
    MissingRequestBodyError 400 "Request body is empty.",
    MissingSecurityHeader 400 "Your request is missing a required header.",
    NoSuchBucket 404 "The specified bucket does not exist",
    NoSuchBucketPolicy 404 "The bucket policy does not exist",
    NoSuchConfiguration 404 "The specified configuration does not exist.",
    NoSuchCORSConfiguration 404 "The CORS configuration does not exist",
    NoSuchKey 404 "The specified key does not exist.",
    NoSuchLifecycleConfiguration 404 "The lifecycle configuration does not exist",
    NoSuchObjectLockConfiguration 404 "The specified object does not have a ObjectLock configuration",
    NoSuchTagSet 404 "The TagSet does not exist",
    NoSuchPublicAccessBlockConfiguration 404 "The public access block configuration was not found",
    NoSuchUpload 404 "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.",
    NoSuchVersion 404 "The specified version does not exist.",
    NoSuchWebsiteConfiguration 404 "The specified bucket does not have a website configuration",
    NotAcceptable 406 "The item cannot be sent in a form that the request accepts.",
    NotImplemented 501 "A header or query you provided implies functionality that is not implemented.",
    NotModified 304 "Not Modified",
    ObjectLockConfigurationNotFoundError 404 "Object Lock configuration does not exist for this bucket",
    OperationAborted 409 "A conflicting conditional operation is currently in progress against this resource. Try again.",
    OwnershipControlsNotFoundError 404 "The bucket ownership controls were not found",
    PreconditionFailed 412 "At least one of the pre-conditions you specified did not hold",
    QuotaExceeded 403 "The bucket would hold more than its quota allows.",
    ReplicationConfigurationNotFoundError 404 "The replication configuration was not found",
    RequestTimeTooSkewed 403 "The difference between the request time and the current time is too large.",
    RequestTimeout 400 "Your socket connection to the server was not read from or written to within the timeout period.",
    ServerSideEncryptionConfigurationNotFoundError 404 "The server side encryption configuration was not found",
    ServiceUnavailable 503 "Service is unable to handle request.",
    SignatureDoesNotMatch 403 "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
    SlowDown 503 "Please reduce your request rate.",
    TooManyBuckets 400 "You have attempted to create more buckets than allowed.",
    UnexpectedContent 400 "This request contains unsupported content.",
    UserKeyMustBeSpecified 400 "User key must be specified.",
    XAmzContentSHA256Mismatch 400 "The provided 'x-amz-content-sha256' header does not match what was computed.",
}

impl Code {
    /// Returns true if the code says that a request's credentials do not count.
    pub fn refuses_credentials(self) -> bool {
        matches!(
            self,
            Code::AuthorizationHeaderMalformed
                | Code::AuthorizationQueryParametersError
                | Code::ExpiredToken
                | Code::InvalidAccessKeyId
                | Code::InvalidToken
                | Code::RequestTimeTooSkewed
                | Code::SignatureDoesNotMatch
        )
    }
}

/// An error as a client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3Error {
    code: Code,
    message: Cow<'static, str>,
    extra: Vec<(&'static str, String)>,
    /// Headers of the answer, beside those of all answers.
    headers: Vec<(&'static str, String)>,
    /// Details for the operator that a client must not see.
    cause: Option<String>,
}

/// The result of anything that a client asked for.
pub type S3Result<T> = Result<T, S3Error>;

impl From<Code> for S3Error {
    fn from(code: Code) -> S3Error {
        S3Error {
            code,
            message: code.message().into(),
            extra: Vec::new(),
            headers: Vec::new(),
            cause: None,
        }
    }
}

impl S3Error {
    /// Makes an error with a message of its own.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> S3Error {
        S3Error {
            message: message.into(),
            ..S3Error::from(code)
        }
    }

    /// Makes an `InvalidArgument` that names the argument and its value.
    pub fn argument(
        name: &str,
        value: impl Into<String>,
        why: impl Into<Cow<'static, str>>,
    ) -> S3Error {
        S3Error::new(Code::InvalidArgument, why)
            .with("ArgumentName", name)
            .with("ArgumentValue", value)
    }

    /// Makes the error for a header that the query, too, gives, with another value.
    pub fn conflict(name: &str) -> S3Error {
        let why = "Conflicting values provided in HTTP headers and query parameters.";
        S3Error::new(Code::InvalidRequest, why).with("ArgumentName", name)
    }

    /// Makes an error about a bucket.
    pub fn of_bucket(code: Code, name: &str) -> S3Error {
        S3Error::from(code).with("BucketName", name)
    }

    /// Makes a `NotImplemented` that names the missing feature.
    pub fn not_implemented(what: &str) -> S3Error {
        S3Error::new(Code::NotImplemented, format!("{what} is not implemented."))
    }

    /// Adds an element to the document.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> S3Error {
        self.extra.push((name, value.into()));
        self
    }

    /// Adds an element to the document if there is a value and no such element.
    pub fn or_with(self, name: &'static str, value: Option<String>) -> S3Error {
        let absent = self.extra.iter().all(|(known, _)| *known != name);
        match value.filter(|_| absent) {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a header to the answer.
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> S3Error {
        self.headers.push((name, value.into()));
        self
    }

    /// Returns the headers of the answer, beside those of all answers.
    pub fn headers(&self) -> &[(&'static str, String)] {
        &self.headers
    }

    /// Adds details for the log, which the client does not get.
    fn because(mut self, cause: String) -> S3Error {
        self.cause = Some(cause);
        self
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the code's further elements: names and values.
    pub fn details(&self) -> &[(&'static str, String)] {
        &self.extra
    }

    /// Returns details for the log, if there are any that the client does not get.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Returns the document that is sent.
    pub fn to_xml(&self, resource: &str, request_id: &str, host_id: &str) -> Vec<u8> {
        let mut xml = Writer::bare("Error");
        self.write(&mut xml, resource);
        xml.text("RequestId", request_id);
        xml.text("HostId", host_id);
        xml.finish()
    }

    /// Returns the document that S3 Control sends: its clients look for the error one element
    /// deeper.
    pub fn to_control_xml(&self, resource: &str, request_id: &str, host_id: &str) -> Vec<u8> {
        let mut xml = Writer::bare("ErrorResponse");
        xml.open("Error");
        self.write(&mut xml, resource);
        xml.close();
        xml.text("RequestId", request_id);
        xml.text("HostId", host_id);
        xml.finish()
    }

    fn write(&self, xml: &mut Writer, resource: &str) {
        xml.text("Code", self.code.as_str());
        xml.text("Message", &self.message);
        for (name, value) in &self.extra {
            xml.text(name, value);
        }
        xml.text("Resource", resource);
    }
}

fn of_marker(code: Code, marker: &Marker) -> S3Error {
    S3Error::from(code)
        .with_header("x-amz-delete-marker", "true")
        .with_header("x-amz-version-id", marker.id.to_string())
}

impl From<archipel_model::Error> for S3Error {
    fn from(error: archipel_model::Error) -> S3Error {
        use archipel_model::Error as E;
        let because = |code: Code| S3Error::from(code).because(error.to_string());
        match &error {
            E::NoSuchBucket => Code::NoSuchBucket.into(),
            E::BucketExists => Code::BucketAlreadyExists.into(),
            E::TooManyBuckets(_) => Code::TooManyBuckets.into(),
            E::BucketNotEmpty => Code::BucketNotEmpty.into(),
            E::NoSuchKey => Code::NoSuchKey.into(),
            E::Deleted(marker) => of_marker(Code::NoSuchKey, marker),
            E::IsMarker(marker) => {
                let time = respond::http_date(marker.modified_ms);
                of_marker(Code::MethodNotAllowed, marker)
                    .with("ResourceType", "DeleteMarker")
                    .with_header("last-modified", time)
                    .with_header("allow", "DELETE")
            }
            E::NoSuchVersion => Code::NoSuchVersion.into(),
            E::NoSuchUpload => Code::NoSuchUpload.into(),
            E::PublicAccessBlocked => {
                let why = "Access Denied: the bucket's Public Access Block does not allow public \
                           access";
                S3Error::new(Code::AccessDenied, why)
            }
            E::LockKeepsVersions => {
                let why = "An Object Lock configuration is present on this bucket, so the versioning \
                           state cannot be changed.";
                S3Error::new(Code::InvalidBucketState, why)
            }
            E::LockNeedsVersions => {
                let why = "Versioning must be 'Enabled' on the bucket to apply a Object Lock \
                           configuration";
                S3Error::new(Code::InvalidBucketState, why)
            }
            E::NoBucketLock => {
                let why = "Bucket is missing Object Lock Configuration";
                S3Error::new(Code::InvalidRequest, why)
            }
            E::ProtectedByLock => {
                let why = "Access Denied because object protected by object lock.";
                S3Error::new(Code::AccessDenied, why)
            }
            E::AclsDisabled => Code::AccessControlListNotSupported.into(),
            E::AclGrantsOthers => Code::InvalidBucketAclWithObjectOwnership.into(),
            E::NoSuchAccessKey => Code::InvalidAccessKeyId.into(),
            E::InvalidPart(_) => Code::InvalidPart.into(),
            E::InvalidName(why) | E::InvalidValue(why) => {
                S3Error::new(Code::InvalidArgument, why.clone())
            }
            E::MalformedPolicy(why) => S3Error::new(Code::MalformedPolicy, why.clone()),
            E::PreconditionFailed => Code::PreconditionFailed.into(),
            E::Conflict => Code::ConditionalRequestConflict.into(),
            E::Full(_) => S3Error {
                message: "There is no space left for new data; reading and deleting go on.".into(),
                ..because(Code::ServiceUnavailable)
            },
            E::QuotaExceeded(why) => S3Error::new(Code::QuotaExceeded, why.clone()),
            E::KeyNeeded => {
                let why = "The object was stored using a form of Server Side Encryption. The correct \
                           parameters must be provided to retrieve the object.";
                S3Error::new(Code::InvalidRequest, why)
            }
            E::WrongKey => Code::AccessDenied.into(),
            E::NoMasterKey(_) => because(Code::ServiceUnavailable),
            E::Unavailable(_) => because(Code::ServiceUnavailable),
            E::Unconfirmed(_) => S3Error {
                message:
                    "This node does not know the present buckets and access keys. Try again, or \
                          on another node."
                        .into(),
                ..because(Code::ServiceUnavailable)
            },
            E::Busy(_) => because(Code::SlowDown),
            E::InvalidSession => Code::InvalidToken.into(),
            E::SessionExpired => Code::ExpiredToken.into(),
            E::NoSuchEntity(why)
            | E::EntityExists(why)
            | E::EntityInUse(why)
            | E::LimitExceeded(why) => S3Error::new(Code::InvalidArgument, why.clone()),
            E::TooLarge => Code::EntityTooLarge.into(),
            E::InvalidCausalityToken => S3Error::new(Code::InvalidRequest, error.to_string()),
            E::TooManyValues => S3Error::new(Code::InvalidRequest, error.to_string()),
            E::AnswerTooLarge => S3Error::new(Code::InvalidRequest, error.to_string()),
            E::AccessKeyExists
            | E::NoSuchToken
            | E::NoSuchAlias
            | E::OwnName
            | E::Damaged(_)
            | E::Internal(_) => because(Code::InternalError),
        }
    }
}
