use archipel_model::ChecksumKind;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::{
    Algorithm, Declared, Digests, Expected, HashPipe, Value, Wanted, composite, full_object,
};
use crate::s3::error::Code;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        let value = HeaderValue::from_str(value).unwrap();
        (HeaderName::from_static(name), value)
    };
    pairs.iter().map(pair).collect()
}

fn hash(algorithm: Algorithm, pieces: &[&[u8]]) -> Digests {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut pipe = HashPipe::new(Wanted {
            kept: algorithm,
            declared: None,
            sha256: true,
        });
        for piece in pieces {
            pipe.update(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        pipe.finish().await.unwrap()
    })
}

/// The check values of the CRC catalogue, FIPS 180, RFC 1321 and xxHash.
#[test]
fn checksums_have_known_values() {
    let of = |algorithm| hex::encode(hash(algorithm, &[b"12345", b"6789"]).checksum.bytes);
    assert_eq!(of(Algorithm::Crc32), "cbf43926");
    assert_eq!(of(Algorithm::Crc32c), "e3069283");
    assert_eq!(of(Algorithm::Crc64Nvme), "ae8b14860a799888");
    let abc = hash(Algorithm::Sha1, &[b"abc"]);
    assert_eq!(
        hex::encode(abc.checksum.bytes),
        "a9993e364706816aba3e25717850c26c9cd0d89d"
    );
    assert_eq!(hex::encode(abc.md5), "900150983cd24fb0d6963f7d28e17f72");
    let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        hex::encode(hash(Algorithm::Sha256, &[b"abc"]).checksum.bytes),
        sha
    );
    assert_eq!(hex::encode(abc.sha256.unwrap()), sha);
    let sha512 = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                  2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
    let md5 = "900150983cd24fb0d6963f7d28e17f72";
    for (algorithm, text, expected) in [
        (Algorithm::Sha512, "abc", sha512),
        (Algorithm::Md5, "abc", md5),
        (Algorithm::Xxhash64, "", "ef46db3751d8e999"),
        (Algorithm::Xxhash64, "abc", "44bc2cf5ad770999"),
        (Algorithm::Xxhash3, "", "2d06800538d394c2"),
        (Algorithm::Xxhash128, "", "99aa06d3014798d86001c324468d497f"),
    ] {
        let value = Value::of(algorithm, text.as_bytes());
        assert_eq!(hex::encode(&value.bytes), expected, "{algorithm:?}");
        assert_eq!(value.bytes.len(), algorithm.length());
    }
}

/// The checksum of the trailer example in AWS's documentation: 65 KiB of `a`.
#[test]
fn large_pieces_are_hashed_on_a_blocking_thread() {
    let digests = hash(Algorithm::Crc32c, &[&[b'a'; 65536], &[b'a'; 1024]]);
    assert_eq!(digests.checksum.to_base64(), "sOO8/Q==");
}

#[test]
fn headers_declare_one_checksum_at_most() {
    let of = |pairs: &[(&'static str, &str)], trailer| {
        Expected::of(&headers(pairs), None, trailer).map_err(|e| e.code())
    };
    let invalid = Err(Code::InvalidRequest);
    let crc = ("x-amz-checksum-crc32", "AAAAAA==");
    let declared = of(&[crc], false).unwrap().declared;
    assert!(matches!(declared, Declared::Value(v) if v.algorithm == Algorithm::Crc32));
    assert_eq!(of(&[("x-amz-checksum-crc32", "AAAA")], false), invalid);
    assert_eq!(of(&[crc, ("x-amz-checksum-sha1", "AAAA")], false), invalid);
    assert_eq!(of(&[("x-amz-checksum-other", "AAAA")], false), invalid);
    let trailer = ("x-amz-trailer", "x-amz-checksum-crc32c");
    let declared = of(&[trailer], true).unwrap().declared;
    assert_eq!(declared, Declared::Trailer(Algorithm::Crc32c));
    assert_eq!(of(&[trailer], false), invalid);
    assert_eq!(of(&[crc, trailer], true), invalid);
    let sdk = |name| ("x-amz-sdk-checksum-algorithm", name);
    assert!(of(&[crc, sdk("CRC32")], false).is_ok());
    assert_eq!(of(&[crc, sdk("SHA1")], false), invalid);
    assert_eq!(of(&[sdk("CRC32")], false), invalid);
    assert_eq!(
        of(&[("content-md5", "abc")], false),
        Err(Code::InvalidDigest)
    );
    assert_eq!(
        of(&[("content-md5", "AAAA")], false),
        Err(Code::InvalidDigest)
    );
}

#[test]
fn hash_that_differs_is_refused() {
    let digests = hash(Algorithm::Crc32, &[b"content"]);
    let expected = |declared, md5, sha256| Expected {
        md5,
        sha256,
        declared,
    };
    let check = |expected: Expected, trailers: &[(String, String)]| {
        expected.check(&digests, trailers).map_err(|e| e.code())
    };
    let right = digests.checksum.clone();
    let wrong = Value::parse(Algorithm::Crc32, "AAAAAA==").unwrap();
    assert_eq!(
        check(
            expected(
                Declared::Value(right.clone()),
                Some(digests.md5),
                digests.sha256
            ),
            &[]
        ),
        Ok(())
    );
    assert_eq!(
        check(expected(Declared::Value(wrong), None, None), &[]),
        Err(Code::BadDigest)
    );
    assert_eq!(
        check(expected(Declared::Nothing, Some([0; 16]), None), &[]),
        Err(Code::BadDigest)
    );
    let mismatch = Err(Code::XAmzContentSHA256Mismatch);
    assert_eq!(
        check(expected(Declared::Nothing, None, Some([0; 32])), &[]),
        mismatch
    );
    let announced = || expected(Declared::Trailer(Algorithm::Crc32), None, None);
    let trailer = |value: &str| vec![("x-amz-checksum-crc32".to_owned(), value.to_owned())];
    assert_eq!(check(announced(), &trailer(&right.to_base64())), Ok(()));
    assert_eq!(
        check(announced(), &trailer("AAAAAA==")),
        Err(Code::BadDigest)
    );
    assert_eq!(check(announced(), &[]), Err(Code::MalformedTrailerError));
    let unannounced = check(
        expected(Declared::Nothing, None, None),
        &trailer("AAAAAA=="),
    );
    assert_eq!(unannounced, Err(Code::MalformedTrailerError));
}

#[test]
fn composite_of_parts() {
    let parts: Vec<_> = [b"one", b"two"]
        .map(|part| hash(Algorithm::Sha256, &[part]).checksum)
        .into();
    let checksum = composite(Algorithm::Sha256, &parts);
    let all = [parts[0].bytes.clone(), parts[1].bytes.clone()].concat();
    let again = hash(Algorithm::Sha256, &[&all]).checksum.to_base64();
    assert_eq!(checksum.value, format!("{again}-2"));
    assert_eq!(checksum.kind, ChecksumKind::Composite);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn parts_combine_to_the_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6)) {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let values: Vec<_> = parts
                .iter()
                .map(|p| (hash(algorithm, &[p]).checksum, p.len() as u64))
                .collect();
            let whole = hash(algorithm, &[&parts.concat()]).checksum;
            prop_assert_eq!(full_object(algorithm, &values), Some(whole));
        }
    }
}
