use bytes::Bytes;
use proptest::prelude::*;
use ring::hmac;

use super::{Decoder, MAX_SIGNED_CHUNK_BYTES};
use crate::s3::error::{Code, S3Result};
use crate::s3::sigv4::{ChunkSigner, Scope, Timestamp};

/// The signing key of the documentation's examples (20130524, us-east-1, s3).
fn example_signer(seed: &str) -> ChunkSigner {
    let mut key: Vec<u8> = b"AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_vec();
    for step in ["20130524", "us-east-1", "s3", "aws4_request"] {
        let step_key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        key = hmac::sign(&step_key, step.as_bytes()).as_ref().to_vec();
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let time = Timestamp::parse("20130524T000000Z").unwrap();
    let scope = Scope::parse("ID/20130524/us-east-1/s3/aws4_request").unwrap();
    ChunkSigner::new(key, &time, &scope, seed)
}

/// A decoder of signed chunks with this much content.
pub fn example_decoder(length: u64) -> Decoder {
    Decoder::new(Some(example_signer(SEED)), false, length)
}

const SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
const FIRST: &str = "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648";
const SECOND: &str = "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497";
const LAST: &str = "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9";

fn signed_body() -> Vec<u8> {
    let mut body = format!("10000;chunk-signature={FIRST}\r\n").into_bytes();
    body.extend([b'a'; 65536]);
    body.extend(format!("\r\n400;chunk-signature={SECOND}\r\n").bytes());
    body.extend([b'a'; 1024]);
    body.extend(format!("\r\n0;chunk-signature={LAST}\r\n\r\n").bytes());
    body
}

const TRAILER_SEED: &str = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";

/// The documentation's example with a trailing checksum.
fn signed_body_with_trailer() -> Vec<u8> {
    let mut body = b"10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n".to_vec();
    body.extend([b'a'; 65536]);
    body.extend(b"\r\n400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n");
    body.extend([b'a'; 1024]);
    body.extend(b"\r\n0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n");
    body.extend(b"x-amz-checksum-crc32c:sOO8/Q==\r\n");
    body.extend(b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n");
    body
}

type Decoded = (usize, Vec<(String, String)>);

/// Feeds `body` in pieces that end at `cuts`.
fn decode(mut decoder: Decoder, body: &[u8], cuts: &[usize]) -> (Vec<u8>, S3Result<Decoded>) {
    let mut content = Vec::new();
    let run = || -> S3Result<Vec<(String, String)>> {
        let mut at = 0;
        for end in cuts.iter().copied().chain([body.len()]) {
            let end = end.clamp(at, body.len());
            let mut out = Vec::new();
            let result = decoder.feed(Bytes::copy_from_slice(&body[at..end]), &mut out);
            out.iter()
                .for_each(|piece| content.extend_from_slice(piece));
            result?;
            at = end;
        }
        decoder.finish()
    };
    let result = run();
    let length = content.len();
    (content, result.map(|trailers| (length, trailers)))
}

fn signed(length: u64) -> Decoder {
    Decoder::new(Some(example_signer(SEED)), false, length)
}

fn code(decoder: Decoder, body: &[u8]) -> Option<Code> {
    decode(decoder, body, &[]).1.err().map(|e| e.code())
}

#[test]
fn documented_example_is_decoded() {
    let (content, result) = decode(signed(66560), &signed_body(), &[]);
    assert_eq!(result, Ok((66560, Vec::new())));
    assert!(content.iter().all(|b| *b == b'a'));
}

#[test]
fn documented_example_with_a_trailer_is_decoded() {
    let decoder = || Decoder::new(Some(example_signer(TRAILER_SEED)), true, 66560);
    let body = signed_body_with_trailer();
    let trailers = vec![("x-amz-checksum-crc32c".to_owned(), "sOO8/Q==".to_owned())];
    assert_eq!(decode(decoder(), &body, &[]).1, Ok((66560, trailers)));
    let text = String::from_utf8(body).unwrap();
    let tampered = text.replace("sOO8/Q==", "sOO8/A==");
    assert_eq!(
        code(decoder(), tampered.as_bytes()),
        Some(Code::SignatureDoesNotMatch)
    );
    let unsigned = text.replace("x-amz-trailer-signature", "x-amz-other");
    assert_eq!(
        code(decoder(), unsigned.as_bytes()),
        Some(Code::MalformedTrailerError)
    );
}

/// minio-go writes trailers so, over plain HTTP (signed) and over TLS (without signatures).
#[test]
fn empty_lines_that_minio_go_sends_are_accepted() {
    let decoder = || Decoder::new(Some(example_signer(TRAILER_SEED)), true, 66560);
    let body = String::from_utf8(signed_body_with_trailer()).unwrap();
    let spaced = body.replace("Q==\r\n", "Q==\n\r\n");
    let trailers = vec![("x-amz-checksum-crc32c".to_owned(), "sOO8/Q==".to_owned())];
    let expected = Ok((66560, trailers));
    assert_eq!(decode(decoder(), spaced.as_bytes(), &[]).1, expected);
    let refused = |from: &str, to: &str| {
        let body = spaced.replace(from, to);
        assert!(decode(decoder(), body.as_bytes(), &[]).1.is_err(), "{to:?}");
    };
    refused("Q==\n\r\n", "Q==\n\r\n\r\n");
    refused("Q==\n\r\n", "Q==\n\r\na:b\r\n");
    refused("2e435\r\n\r\n", "2e435\r\n\r\n\r\n");

    let unsigned = |end: &str| {
        let body = format!("1\r\na\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\n\r\n{end}");
        code(Decoder::new(None, true, 1), body.as_bytes())
    };
    assert_eq!(unsigned(""), None);
    assert_eq!(unsigned("\r\n"), None);
    for end in ["\r", "\r\n\r\n", "x", "x\r\n", "\r\nx"] {
        assert_eq!(unsigned(end), Some(Code::IncompleteBody), "{end:?}");
    }
    let none = b"1\r\na\r\n0\r\n\r\n\r\n";
    let decoder = Decoder::new(None, true, 1);
    assert_eq!(code(decoder, none), Some(Code::IncompleteBody));
}

#[test]
fn forged_chunk_yields_no_byte() {
    let mut body = signed_body();
    let at = body.len() - 200;
    body[at] = b'b';
    let (content, result) = decode(signed(66560), &body, &[]);
    assert_eq!(
        result.map_err(|e| e.code()),
        Err(Code::SignatureDoesNotMatch)
    );
    assert_eq!(content.len(), 65536, "the first chunk only, which is right");
}

#[test]
fn truncated_body_is_an_error_at_every_byte() {
    let body = signed_body();
    for end in (0..body.len())
        .step_by(977)
        .chain(body.len() - 100..body.len())
    {
        assert!(
            decode(signed(66560), &body[..end], &[]).1.is_err(),
            "cut at {end}"
        );
    }
}

#[test]
fn lengths_must_agree() {
    assert_eq!(
        code(signed(66561), &signed_body()),
        Some(Code::IncompleteBody)
    );
    assert_eq!(
        code(signed(66559), &signed_body()),
        Some(Code::IncompleteBody)
    );
    let mut longer = signed_body();
    longer.push(b'x');
    assert_eq!(code(signed(66560), &longer), Some(Code::IncompleteBody));
}

#[test]
fn sizes_are_bounded() {
    let unsigned = |length| Decoder::new(None, true, length);
    let refused = |body: &str| assert!(decode(unsigned(u64::MAX), body.as_bytes(), &[]).1.is_err());
    refused("ffffffffffffffffff\r\n");
    refused("-1\r\n");
    refused("+1\r\n");
    refused(" 1\r\n");
    refused("\r\n");
    refused(&"0".repeat(5000));
    refused("1;chunk-signature=abc\r\na\r\n0\r\n\r\n");
    let huge = format!(
        "{:x};chunk-signature={FIRST}\r\n",
        MAX_SIGNED_CHUNK_BYTES + 1
    );
    assert_eq!(
        code(signed(u64::MAX), huge.as_bytes()),
        Some(Code::InvalidRequest)
    );
    let small = b"1\r\na\r\n1\r\na\r\n0\r\n\r\n";
    assert_eq!(code(unsigned(2), small), Some(Code::InvalidChunkSizeError));
}

#[test]
fn unannounced_trailers_are_refused() {
    let body = b"1\r\na\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
    let trailers = vec![("x-amz-checksum-crc32".to_owned(), "AAAAAA==".to_owned())];
    assert_eq!(
        decode(Decoder::new(None, true, 1), body, &[]).1,
        Ok((1, trailers))
    );
    assert_eq!(
        code(Decoder::new(None, false, 1), body),
        Some(Code::MalformedTrailerError)
    );
    let many = format!("0\r\n{}\r\n", "a:b\r\n".repeat(9));
    assert_eq!(
        code(Decoder::new(None, true, 0), many.as_bytes()),
        Some(Code::MalformedTrailerError)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn signed_body_decodes_alike_in_any_pieces(mut cuts in prop::collection::vec(0usize..67000, 0..40)) {
        cuts.sort_unstable();
        let (content, result) = decode(signed(66560), &signed_body(), &cuts);
        prop_assert_eq!(result, Ok((66560, Vec::new())));
        prop_assert_eq!(content, vec![b'a'; 66560]);
    }

    #[test]
    fn unsigned_body_decodes_alike_in_any_pieces(
        content in prop::collection::vec(any::<u8>(), 0..20_000),
        mut cuts in prop::collection::vec(0usize..20_100, 0..20),
    ) {
        cuts.sort_unstable();
        let mut body = Vec::new();
        for chunk in content.chunks(9000) {
            body.extend(format!("{:x}\r\n", chunk.len()).bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\nx-amz-checksum-crc32:v\r\n\r\n");
        let decoder = Decoder::new(None, true, content.len() as u64);
        let (decoded, result) = decode(decoder, &body, &cuts);
        prop_assert!(result.is_ok());
        prop_assert_eq!(decoded, content);
    }

    #[test]
    fn noise_is_an_error_not_a_panic(noise in "[0-9a-f;:\r\nchunk=x-]{0,80}", length in 0u64..100) {
        let _ = decode(Decoder::new(None, true, length), noise.as_bytes(), &[3, 9, 40]);
        let _ = decode(signed(length), noise.as_bytes(), &[5]);
    }
}
