//! The client that signed a form: its fields hold the signature.

use std::sync::Arc;

use archipel_model::AccessKey;

use crate::s3::auth::{Caller, Credential};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::post::{Fields, Policy};
use crate::s3::route::refuse_headers;
use crate::s3::signed::{self, Stranger};
use crate::s3::sigv2;
use crate::s3::sigv4::{ALGORITHM, Lookup, PolicyFields, Verifier, unsupported_mechanism};
use crate::s3::tagging;

/// The fields of a signature of version 4.
const SIGNATURE: [&str; 4] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signature",
];

/// The fields of a signature of version 2.
const VERSION_2: [&str; 2] = ["awsaccesskeyid", "signature"];

/// Finds out who signed a form, and under which policy.
pub async fn sign_in(
    call: &mut Call<'_>,
    verifier: &Verifier,
    version_2: bool,
    lookup: Lookup<'_>,
    fields: &Fields,
    bucket: &str,
) -> S3Result<(Caller, Policy)> {
    let stranger = Stranger {
        model: call.model,
        rates: &call.rates,
        peer: call.peer,
    };
    let session = match fields.get(signed::TOKEN) {
        Some(token) => Some(stranger.key_of_token(token).await?),
        None => None,
    };
    let of_session = session.as_ref().map(signed::of_session);
    let lookup: Lookup<'_> = match &of_session {
        Some(of_session) => of_session,
        None => {
            learn_key(&stranger, lookup, fields).await?;
            lookup
        }
    };
    let (signer, policy) = authenticate(call, verifier, version_2, lookup, fields, bucket)?;
    let caller = match signer {
        Some((key, credential)) => {
            Caller::verified(call.model, &call.rates, &key, credential).await?
        }
        None => Caller::anonymous(),
    };
    call.name(&caller);
    if let Some(key) = caller.key() {
        call.model.find_bucket_of_key(key, bucket).await?;
    }
    Ok((caller, policy))
}

/// Fetches an unknown key: another node may have made it a moment ago.
async fn learn_key(stranger: &Stranger<'_>, lookup: Lookup<'_>, fields: &Fields) -> S3Result<()> {
    let credential = fields.get("x-amz-credential");
    let id = credential.and_then(|credential| credential.split('/').next());
    let id = id.or_else(|| fields.get(VERSION_2[0]));
    if let Some(id) = id
        && lookup(id)?.is_none()
    {
        stranger.learn_key(id).await?;
    }
    Ok(())
}

/// The key that signed a form, and how.
type Signed = (Arc<AccessKey>, Credential);

/// Checks the policy's signature, then its conditions. Returns the key that signed it.
fn authenticate(
    call: &Call<'_>,
    verifier: &Verifier,
    version_2: bool,
    lookup: Lookup<'_>,
    fields: &Fields,
    bucket: &str,
) -> S3Result<(Option<Signed>, Policy)> {
    let signs = |(name, _): (&str, &str)| SIGNATURE.contains(&name) || VERSION_2.contains(&name);
    let Some(encoded) = fields.get("policy") else {
        // Where everybody may put objects, a form needs no policy.
        return match fields.iter().any(signs) {
            true => Err(Code::AccessDenied.into()),
            false => {
                refuse_fields(fields)?;
                Ok((None, Policy::unlimited()))
            }
        };
    };
    let of_version_4 = fields.iter().any(|(name, _)| SIGNATURE.contains(&name));
    let (key, version, age_ms) = match fields.get(VERSION_2[0]) {
        Some(id) if version_2 && !of_version_4 => {
            let signature = fields.required(VERSION_2[1])?;
            let key = sigv2::verify_policy(encoded, id, signature, lookup)?;
            (key, "AWS", sigv2::AGE_MS)
        }
        Some(_) => return Err(unsupported_mechanism()),
        None => {
            let signed = PolicyFields {
                algorithm: fields.required(SIGNATURE[0])?,
                credential: fields.required(SIGNATURE[1])?,
                date: fields.required(SIGNATURE[2])?,
                signature: fields.required(SIGNATURE[3])?,
            };
            let (key, age_ms) = verifier.verify_policy(encoded, &signed, call.now_ms(), lookup)?;
            (key, ALGORITHM, age_ms)
        }
    };
    let policy = Policy::parse(encoded)?;
    policy.check(fields, bucket, call.now_ms())?;
    refuse_fields(fields)?;
    let credential = Credential {
        version,
        kind: "POST",
        age_ms: Some(age_ms),
    };
    Ok((Some((key, credential)), policy))
}

/// Refuses fields that would change the meaning of a form if they were implemented.
fn refuse_fields(fields: &Fields) -> S3Result<()> {
    refuse_headers(fields.iter().map(|(name, value)| (name, value.as_bytes())))?;
    let conditions = ["if-match", "if-none-match"];
    if let Some((name, _)) = fields
        .iter()
        .find(|(name, _)| name.starts_with("x-amz-grant-") || conditions.contains(name))
    {
        return Err(S3Error::not_implemented(&format!("The form field {name}")));
    }
    let tags = fields.get(tagging::TAGGING);
    match tags.is_some_and(|value| !value.is_empty()) {
        true => Err(S3Error::not_implemented("The form field x-amz-tagging")),
        false => Ok(()),
    }
}
