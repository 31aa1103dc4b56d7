"""s3fs, through which pandas, Dask and others read and write (tests/clients/s3fs). Its botocore is older than that of boto3 here."""

from pathlib import Path

import pytest
from support.projects import run_python


@pytest.mark.long
def test_s3fs(server):
    run_python(Path(__file__).with_name("s3fs") / "checks.py", server, "s3fs==2026.9.0", "aiobotocore==3.10.0")
