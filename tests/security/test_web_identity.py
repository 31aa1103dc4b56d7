"""Temporary credentials for the tokens of a real OpenID provider, at three nodes; keys change on both sides."""

from __future__ import annotations

import base64
import json
import os
import stat

import pytest
from botocore.exceptions import ClientError
from cluster.loopback import running
from faults.cluster import BUCKET
from faults.injector import clocks_can_jump, give_clock, set_clock
from support import oidc_provider
from support.boto import boto
from support.client import Client
from support.server import wait_until
from support.sigv4 import Credentials, shifted
from support.tools import run

pytestmark = pytest.mark.process

HOUR = 3600
ALGORITHMS = ("RS256", "ES256")


@pytest.fixture(scope="module")
def provider(tmp_path_factory):
    why_not = oidc_provider.why_not()
    if why_not:
        pytest.skip(why_not)
    provider = oidc_provider.Provider(tmp_path_factory.mktemp("oidc") / "provider")
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def cluster(provider, tmp_path_factory):
    """Three nodes that trust the provider: `job-1` may be the role `worker`."""

    def clocks(cluster) -> None:
        for node in cluster.nodes:
            give_clock(node)

    with running(tmp_path_factory.mktemp("web-identity"), 3, clocks) as cluster:
        first = cluster.nodes[0]
        first.admin("POST", "/v1/users", {"name": "admin", "attach": ["AdministratorAccess"]})
        key = first.admin("POST", "/v1/users/admin/keys", {})
        iam = boto("iam", first.endpoint, key["id"], key["secret"])
        made = iam.create_open_id_connect_provider(Url=provider.issuer, ClientIDList=[f"archipel-{a}" for a in ALGORITHMS])
        name = provider.issuer.removeprefix("http://")
        statement = {
            "Effect": "Allow",
            "Principal": {"Federated": made["OpenIDConnectProviderArn"]},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": {f"{name}:sub": "job-1"}, "StringLike": {f"{name}:aud": "archipel-*"}},
        }
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.create_role(RoleName="worker", AssumeRolePolicyDocument=trust, MaxSessionDuration=12 * HOUR)
        plain = {key: statement[key] for key in ("Principal", "Action")}
        plain |= {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement, plain]})
        iam.create_role(RoleName="over-tls", AssumeRolePolicyDocument=trust)
        iam.attach_role_policy(RoleName="worker", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
        yield cluster


ROLE = "arn:aws:iam::000000000000:role/worker"


def assume(node, token: str, role: str = ROLE, **more) -> dict:
    """The answer of AssumeRoleWithWebIdentity, which nothing but the token signs."""
    sts = boto("sts", node.endpoint, None, None)
    return sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="job", WebIdentityToken=token, **more)


def code_of(node, token: str, role: str = ROLE) -> str:
    """Returns the code with which a node refuses a token; an empty text if it does not."""
    try:
        assume(node, token, role)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return ""


def test_every_node_takes_tokens_of_both_algorithms(cluster, provider):
    for algorithm in ALGORITHMS:
        token = provider.token("job-1", algorithm)
        for node in cluster.nodes:
            answer = assume(node, token)
            assert answer["SubjectFromWebIdentityToken"] == "job-1" and answer["Audience"] == f"archipel-{algorithm}"
            got = answer["Credentials"]
            # At another node than the one that gave the session.
            other = cluster.nodes[(node.number + 1) % 3]
            s3 = boto("s3", other.endpoint, got["AccessKeyId"], got["SecretAccessKey"], token=got["SessionToken"])
            s3.put_object(Bucket=BUCKET, Key=f"{algorithm}/{node.number}", Body=b"x")
        assert code_of(cluster.nodes[0], provider.token("job-2", algorithm)) == "AccessDenied"
        head, body, signature = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
        forged = base64.urlsafe_b64encode(json.dumps(claims | {"iat": claims["iat"] + 1}).encode()).decode().rstrip("=")
        assert code_of(cluster.nodes[0], f"{head}.{forged}.{signature}") == "InvalidIdentityToken"


def test_a_role_may_refuse_requests_over_plain_text(cluster, provider):
    token = provider.token("job-1", "RS256")
    assert code_of(cluster.nodes[0], token, "arn:aws:iam::000000000000:role/over-tls") == "AccessDenied"


def test_the_aws_command_line_reads_the_token_from_a_file(cluster, provider, tmp_path):
    """`AWS_WEB_IDENTITY_TOKEN_FILE`, as in a Kubernetes pod."""
    file = tmp_path / "token"
    file.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    file.write_text(provider.token("job-1", "RS256"))
    environment = {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(file),
        "AWS_ROLE_ARN": ROLE,
        "AWS_ROLE_SESSION_NAME": "cli",
        "AWS_ENDPOINT_URL": cluster.nodes[1].endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "HOME": str(tmp_path),
    }
    run(["aws", "s3", "cp", "-", f"s3://{BUCKET}/by-cli"], environment, stdin=b"by a token")
    assert run(["aws", "s3", "cp", f"s3://{BUCKET}/by-cli", "-"], environment).stdout == b"by a token"
    who = json.loads(run(["aws", "--output", "json", "sts", "get-caller-identity"], environment).stdout)
    assert who["Arn"] == "arn:aws:sts::000000000000:assumed-role/worker/cli"


def test_the_provider_changes_its_keys(cluster, provider):
    """A node asks for the keys again when it meets a token with one that it does not know, every 10 s at most."""
    old = provider.token("job-1", "RS256")
    assert [code_of(node, old) for node in cluster.nodes] == ["", "", ""]
    provider.rotate()
    for algorithm in ALGORITHMS:
        new = provider.token("job-1", algorithm)
        for node in cluster.nodes:
            assert wait_until(lambda: code_of(node, new) == "", 60), (algorithm, node.name)
    # The provider does not name the old key any more.
    assert [code_of(node, old) for node in cluster.nodes] == ["InvalidIdentityToken"] * 3


class Session:
    """Temporary credentials, used at any node and at any time."""

    def __init__(self, node, token: str, hours: int):
        got = assume(node, token, DurationSeconds=hours * HOUR)["Credentials"]
        self.credentials = Credentials(got["AccessKeyId"], got["SecretAccessKey"])
        self.token = got["SessionToken"]

    def sealed_by(self) -> int:
        """The number of the cluster's key that sealed the token: it stands in clear behind the version."""
        return int.from_bytes(base64.urlsafe_b64decode(self.token + "==")[1:5])

    def status(self, node, offset_s: float) -> int:
        headers = [("x-amz-security-token", self.token)]
        client = Client(node.endpoint, self.credentials, timeout=30)
        return client.request("GET", f"/{BUCKET}", headers=headers, stamp=shifted(offset_s)).status


def test_the_keys_that_seal_sessions_change_and_every_node_knows_them(cluster, provider):
    """Sessions of yesterday's key last to their end, at all nodes, and after a restart of all."""
    if not clocks_can_jump():
        pytest.skip("the clock of a process cannot be moved (apt-get install faketime)")
    token = provider.token("job-1", "RS256")

    def move(offset_s: float) -> None:
        for node in cluster.nodes:
            set_clock(node, offset_s)
        # A node's clock is the new one once it accepts a signature of that time.
        for node in cluster.nodes:
            client = Client(node.endpoint, cluster.credentials, timeout=30)
            now = lambda: client.request("GET", f"/{BUCKET}", stamp=shifted(offset_s)).status  # noqa: E731
            assert wait_until(lambda: now() == 200, 60), node.name

    short = Session(cluster.nodes[0], token, 1)
    move(23 * HOUR)
    yesterday = Session(cluster.nodes[1], token, 12)
    move(25 * HOUR)
    today = [Session(node, token, 12) for node in cluster.nodes]
    assert short.sealed_by() == yesterday.sealed_by()
    assert {session.sealed_by() for session in today} == {yesterday.sealed_by() + 1}
    for _ in range(2):
        for node in cluster.nodes:
            assert short.status(node, 25 * HOUR) == 400, "it has expired"
            assert [session.status(node, 25 * HOUR) for session in (yesterday, *today)] == [200] * 4, node.name
        for node in cluster.nodes:
            cluster.stop(node)
        for node in cluster.nodes:
            cluster.start(node)
        for node in cluster.nodes:
            cluster.wait_admin(node)
        move(25 * HOUR)
