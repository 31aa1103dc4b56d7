"""The AWS SDK for JavaScript, version 3, with its uploader, presigned URLs and forms (tests/clients/aws_sdk_js)."""

from pathlib import Path

from support.projects import run_node


def test_aws_sdk_for_javascript(server, tmp_path):
    run_node(Path(__file__).with_name("aws_sdk_js"), server, tmp_path / "aws_sdk_js")
