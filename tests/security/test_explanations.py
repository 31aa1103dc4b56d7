"""`archipel access explain` about users that are not what a policy takes them for by their names."""

from __future__ import annotations

import contextlib

import pytest
from security.test_policies_of_users import ACCOUNT, document, statement

pytestmark = pytest.mark.process


@pytest.fixture
def make_user(iam):
    """Makes users with a key, that may get objects; gives the key's id."""
    made = []

    def make(name: str, path: str) -> str:
        iam.create_user(UserName=name, Path=path)
        key = iam.create_access_key(UserName=name)["AccessKey"]["AccessKeyId"]
        made.append((name, key))
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document(statement("Allow", "s3:*")))
        return key

    def delete(name: str, key: str) -> None:
        iam.delete_user_policy(UserName=name, PolicyName="p")
        iam.delete_access_key(UserName=name, AccessKeyId=key)
        iam.delete_user(UserName=name)
        made.remove((name, key))

    make.delete = delete
    yield make
    for name, key in list(made):
        with contextlib.suppress(iam.exceptions.NoSuchEntityException):
            delete(name, key)


@pytest.fixture
def explain(cli, bucket, s3):
    """Says how a request of a key for an object is decided. The bucket's policy denies it to one user by its name."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")

    def deny(arn: str) -> None:
        policy = statement("Deny", "s3:GetObject", f"arn:aws:s3:::{bucket}/*") | {"Principal": {"AWS": arn}}
        s3.put_bucket_policy(Bucket=bucket, Policy=document(policy))

    def said(key: str) -> dict:
        return cli("access", "explain", key, "s3:GetObject", f"{bucket}/k")

    said.deny = deny
    return said


def names(explained: dict) -> set[str]:
    """All names of the one who asks: also that among the condition keys."""
    context = {name.lower(): values for name, values in explained["context"].items()}
    return {explained["principal"], *context.get("aws:principalarn", [])}


def test_a_user_with_a_new_path_is_named_as_it_is_now(make_user, explain, iam):
    key = make_user("walker", "/dev/")
    explain.deny(f"{ACCOUNT}:user/dev/walker")
    assert names(explain(key)) == {f"{ACCOUNT}:user/dev/walker"}
    iam.update_user(UserName="walker", NewPath="/ops/")
    explained = explain(key)
    # The policy still means it.
    assert not explained["allowed"]
    assert names(explained) == {f"{ACCOUNT}:user/ops/walker"}


def test_a_new_user_of_an_old_name_is_named(make_user, explain):
    earlier = make_user("walker", "/")
    explain.deny(f"{ACCOUNT}:user/walker")
    assert not explain(earlier)["allowed"]
    make_user.delete("walker", earlier)
    explained = explain(make_user("walker", "/"))
    # The policy does not mean this one.
    assert explained["allowed"]
    assert names(explained) == {f"{ACCOUNT}:user/walker"}
