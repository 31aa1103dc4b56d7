//! The POST policy of AWS's documentation: "Examples: Browser-Based Upload using HTTP POST".

use super::{ID, lookup};
use crate::s3::error::Code;
use crate::s3::sigv4::{PolicyFields, Verifier};

const POLICY: &str = "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";

#[test]
fn policy_signature_is_valid_for_seven_days() {
    let signed_ms = 1_451_347_200_000;
    let verify_at = |policy: &str, signature: &str, now_ms| {
        let fields = PolicyFields {
            algorithm: "AWS4-HMAC-SHA256",
            credential: "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request",
            date: "20151229T000000Z",
            signature,
        };
        let verifier = Verifier::new("us-east-1", "s3");
        let result = verifier.verify_policy(policy, &fields, now_ms, &lookup);
        let age = now_ms.saturating_sub(signed_ms);
        result
            .inspect(|(_, told)| assert_eq!(*told, age))
            .map(|(key, _)| key.id.clone())
            .map_err(|e| e.code())
    };
    let verify = |policy: &str, signature: &str| verify_at(policy, signature, signed_ms);
    let right = "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e";
    assert_eq!(verify(POLICY, right), Ok(ID.to_owned()));
    assert_eq!(
        verify(&POLICY[4..], right),
        Err(Code::SignatureDoesNotMatch)
    );
    assert_eq!(verify(POLICY, ""), Err(Code::SignatureDoesNotMatch));
    // The signing key is valid for seven days, however late the policy expires.
    let week_ms = 7 * 86_400_000;
    let at = |now_ms| verify_at(POLICY, right, now_ms);
    assert_eq!(at(signed_ms + week_ms), Ok(ID.to_owned()));
    assert_eq!(at(signed_ms + week_ms + 1), Err(Code::AccessDenied));
}
