"""A state as Terraform keeps it: one file, locked by another, with its history as versions."""

import json
import threading

from botocore.exceptions import ClientError


class State:
    """A state that is locked by a file beside it and keeps its history as versions, as Terraform's S3 backend does."""

    def __init__(self, s3, bucket):
        self.s3, self.bucket = s3, bucket

    def lock(self, who):
        """Takes the lock if nobody has it."""
        try:
            self.s3.put_object(Bucket=self.bucket, Key="state.tflock", Body=who.encode(), IfNoneMatch="*")
        except ClientError as error:
            assert error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict")
            return False
        return True

    def unlock(self):
        self.s3.delete_object(Bucket=self.bucket, Key="state.tflock")

    def read(self, **version):
        return json.loads(self.s3.get_object(Bucket=self.bucket, Key="state", **version)["Body"].read())

    def write(self, state):
        return self.s3.put_object(Bucket=self.bucket, Key="state", Body=json.dumps(state))["VersionId"]


def test_one_writer_at_a_time_and_the_way_back(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    state = State(s3, bucket)
    written = [state.write({"serial": 0})]

    def worker(name):
        done = 0
        while done < 5:
            if not state.lock(name):
                continue
            written.append(state.write({"serial": state.read()["serial"] + 1}))
            state.unlock()
            done += 1

    threads = [threading.Thread(target=worker, args=(f"worker {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Nobody lost another's write: the lock was taken by one at a time, though each unlocking left a delete marker.
    assert state.read()["serial"] == 20
    listed = s3.list_object_versions(Bucket=bucket, Prefix="state")["Versions"]
    assert [v["VersionId"] for v in listed if v["Key"] == "state"] == written[::-1]
    for serial, version in enumerate(written):
        assert state.read(VersionId=version) == {"serial": serial}
    # Back to an older state: the newer versions are deleted, and it is the current one.
    for version in written[11:]:
        s3.delete_object(Bucket=bucket, Key="state", VersionId=version)
    assert state.read() == {"serial": 10}
