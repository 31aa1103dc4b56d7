"""Revocations at one node of three count at the others with the next request, once the answer confirms them."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError
from cluster.loopback import running
from faults.cluster import BUCKET
from support.boto import boto
from support.server import wait_until

pytestmark = pytest.mark.process

# A node that does not confirm a change learns of it when its control data is next confirmed.
LEASE_S = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running(tmp_path_factory.mktemp("revocation"), 3) as cluster:
        cluster.nodes[0].admin("POST", "/v1/users", {"name": "admin", "attach": ["AdministratorAccess"]})
        yield cluster


@pytest.fixture(scope="module")
def iam(cluster):
    first = cluster.nodes[0]
    key = first.admin("POST", "/v1/users/admin/keys", {})
    return boto("iam", first.endpoint, key["id"], key["secret"])


def allow(action: str) -> str:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class Worker:
    """A user with a key, or a session of that key, at every node."""

    def __init__(self, cluster, iam, name: str, session: bool):
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=allow("s3:*"))
        self.name = name
        made = iam.create_access_key(UserName=name)["AccessKey"]
        self.key = made["AccessKeyId"]
        credentials, token = (self.key, made["SecretAccessKey"]), None
        if session:
            got = boto("sts", cluster.nodes[0].endpoint, *credentials).get_session_token()["Credentials"]
            credentials, token = (got["AccessKeyId"], got["SecretAccessKey"]), got["SessionToken"]
        self.s3 = [boto("s3", node.endpoint, *credentials, token=token) for node in cluster.nodes]

    def code(self, number: int) -> str:
        """Returns the code of a node's refusal; an empty text if it does not refuse."""
        try:
            self.s3[number].list_objects_v2(Bucket=BUCKET)
        except ClientError as error:
            return error.response["Error"]["Code"]
        return ""


REVOCATIONS = {
    "the key is disabled": lambda iam, it: iam.update_access_key(UserName=it.name, AccessKeyId=it.key, Status="Inactive"),
    "the key is deleted": lambda iam, it: iam.delete_access_key(UserName=it.name, AccessKeyId=it.key),
    "the policy is deleted": lambda iam, it: iam.delete_user_policy(UserName=it.name, PolicyName="p"),
    "the policy is replaced": lambda iam, it: iam.put_user_policy(
        UserName=it.name, PolicyName="p", PolicyDocument=allow("s3:GetObject")
    ),
}


@pytest.mark.parametrize("session", [False, True], ids=["key", "session"])
@pytest.mark.parametrize("how", REVOCATIONS)
def test_what_is_revoked_at_one_node_is_refused_by_all(cluster, iam, how, session):
    worker = Worker(cluster, iam, f"{how}-{session}".replace(" ", "-"), session)
    for number in range(3):
        assert worker.code(number) == "", cluster.nodes[number].name
    answer = REVOCATIONS[how](iam, worker)
    unconfirmed = answer["ResponseMetadata"]["HTTPHeaders"].get("x-archipel-unconfirmed", "")
    expected = "InvalidAccessKeyId" if "key" in how else "AccessDenied"
    for number, node in enumerate(cluster.nodes):
        if node.id in unconfirmed:
            assert wait_until(lambda: worker.code(number) == expected, LEASE_S), node.name
        else:
            assert worker.code(number) == expected, node.name
