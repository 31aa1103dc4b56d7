"""The AWS SDK for Go, version 2, with its transfer manager (tests/clients/aws_sdk_go)."""

from pathlib import Path

from support.projects import run_go


def test_aws_sdk_for_go(server):
    run_go(Path(__file__).with_name("aws_sdk_go"), server)
