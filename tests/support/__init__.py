"""The helpers that the black-box tests share: a signer, a raw HTTP client, a running server."""
