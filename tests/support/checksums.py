"""The checksums of S3 that boto3 computes, by the AWS runtime's own implementation and hashlib."""

from __future__ import annotations

import base64
import hashlib

from awscrt import checksums

ALGORITHMS = ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256", "SHA512", "XXHASH64", "XXHASH3", "XXHASH128"]
FULL_OBJECT = ["CRC32", "CRC32C", "CRC64NVME"]
COMPOSITE = [algorithm for algorithm in ALGORITHMS if algorithm != "CRC64NVME"]


def digest(algorithm: str, data: bytes) -> bytes:
    match algorithm:
        case "CRC32":
            return checksums.crc32(data).to_bytes(4, "big")
        case "CRC32C":
            return checksums.crc32c(data).to_bytes(4, "big")
        case "CRC64NVME":
            return checksums.crc64nvme(data).to_bytes(8, "big")
        case "XXHASH64":
            return checksums.XXHash.compute_xxhash64(data)
        case "XXHASH3":
            return checksums.XXHash.compute_xxhash3_64(data)
        case "XXHASH128":
            return checksums.XXHash.compute_xxhash3_128(data)
        case _:
            return hashlib.new(algorithm.lower(), data).digest()


def encoded(algorithm: str, data: bytes) -> str:
    return base64.b64encode(digest(algorithm, data)).decode()


def composite(algorithm: str, parts: list[bytes]) -> str:
    """The checksum of the parts' checksums, with their number."""
    joined = b"".join(digest(algorithm, p) for p in parts)
    return f"{encoded(algorithm, joined)}-{len(parts)}"


def header(algorithm: str) -> str:
    return f"x-amz-checksum-{algorithm.lower()}"


def field(algorithm: str) -> str:
    """Its name in boto3."""
    return f"Checksum{algorithm}"
