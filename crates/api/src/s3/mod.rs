//! The S3 API.
