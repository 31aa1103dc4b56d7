//! A customer's key in the headers of a request.

use archipel_model::CustomerKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use md5::{Digest, Md5};

use super::AES256;
use crate::s3::call::{Call, single_header};
use crate::s3::error::{Code, S3Error, S3Result};

/// The names of the headers with a customer's key.
pub struct Names {
    /// Of the algorithm.
    pub algorithm: &'static str,
    /// Of the key.
    pub key: &'static str,
    /// Of the key's MD5.
    pub md5: &'static str,
}

/// The headers about the object itself.
pub const CUSTOMER: Names = Names {
    algorithm: "x-amz-server-side-encryption-customer-algorithm",
    key: "x-amz-server-side-encryption-customer-key",
    md5: "x-amz-server-side-encryption-customer-key-md5",
};

/// The headers about the source of a copy.
pub const SOURCE: Names = Names {
    algorithm: "x-amz-copy-source-server-side-encryption-customer-algorithm",
    key: "x-amz-copy-source-server-side-encryption-customer-key",
    md5: "x-amz-copy-source-server-side-encryption-customer-key-md5",
};

impl Names {
    /// Returns true if any of them is there.
    pub fn are_in(&self, headers: &HeaderMap) -> bool {
        let all = [self.algorithm, self.key, self.md5];
        all.iter().any(|name| headers.contains_key(*name))
    }
}

/// A key that a request gives.
pub struct Customer {
    /// The key.
    pub key: CustomerKey,
    /// Its MD5, as the request gives it.
    pub md5: String,
}

/// Returns the customer's key that the headers give, if they do.
///
/// # Errors
/// [`Code::InvalidRequest`] over plain HTTP; [`Code::InvalidEncryptionAlgorithmError`];
/// [`Code::InvalidArgument`].
pub fn customer_of(
    call: &Call<'_>,
    headers: &HeaderMap,
    names: &Names,
) -> S3Result<Option<Customer>> {
    if !names.are_in(headers) {
        return Ok(None);
    }
    // This comes first: a key that came in plain text is known to others already.
    if !call.may_give_keys() {
        let why = "Requests specifying Server Side Encryption with Customer provided keys must be \
                   made over a secure connection.";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    let given = |name, why: &'static str| {
        let text = single_header(headers, name)?.filter(|text| !text.is_empty());
        // The value is left out: it may be a key.
        text.ok_or_else(|| S3Error::argument(name, "", why))
    };
    let algorithm = given(
        names.algorithm,
        "Requests specifying Server Side Encryption with Customer provided keys must provide a \
         valid encryption algorithm.",
    )?;
    if algorithm != AES256 {
        return Err(Code::InvalidEncryptionAlgorithmError.into());
    }
    let key = given(
        names.key,
        "Requests specifying Server Side Encryption with Customer provided keys must provide an \
         appropriate secret key.",
    )?;
    let md5 = given(
        names.md5,
        "Requests specifying Server Side Encryption with Customer provided keys must provide the \
         client calculated MD5 of the secret key.",
    )?;
    let key = STANDARD.decode(key).ok();
    let key: Option<[u8; 32]> = key.and_then(|key| key.try_into().ok());
    let key = key.ok_or_else(|| {
        let why = "The secret key was invalid for the specified algorithm.";
        S3Error::argument(names.key, "", why)
    })?;
    if STANDARD.encode(Md5::digest(key)) != md5 {
        let why = "The calculated MD5 hash of the key did not match the hash that was provided.";
        return Err(S3Error::argument(names.md5, "", why));
    }
    Ok(Some(Customer {
        key: CustomerKey::new(key),
        md5: md5.to_owned(),
    }))
}
