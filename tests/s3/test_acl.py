"""Access control lists in grants: what a canned list could say takes effect, all else is refused."""

import pytest
from support.expect import answer, refused
from support.sigv4 import object_path
from support.unchanged import unchanged

GROUPS = "http://acs.amazonaws.com/groups"
ALL = f"{GROUPS}/global/AllUsers"
AUTHENTICATED = f"{GROUPS}/global/AuthenticatedUsers"


@pytest.fixture
def open_bucket(s3, make_bucket):
    """A bucket in which lists count, also public ones."""
    name = make_bucket("open")
    s3.delete_public_access_block(Bucket=name)
    rules = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=rules)
    return name


def granted(reply) -> set[tuple[str, str]]:
    """Group or `owner`, and permission, of each grant."""
    names = {ALL: "all", AUTHENTICATED: "authenticated"}
    return {
        (names.get(g["Grantee"].get("URI"), "owner"), g["Permission"]) for g in reply["Grants"]
    }


OWNER = ("owner", "FULL_CONTROL")


@pytest.mark.parametrize("value", [f'uri="{ALL}"', f"uri={ALL}", f' URI = "{ALL}" '])
def test_grant_to_everybody(raw, s3, open_bucket, value):
    answer(raw.put(open_bucket, "k", b"x", [("x-amz-grant-read", value)]), 200)
    assert granted(s3.get_object_acl(Bucket=open_bucket, Key="k")) == {OWNER, ("all", "READ")}
    assert answer(raw.get(open_bucket, "k", anonymous=True), 200).body == b"x"


def test_grants_of_several_headers(s3, raw, open_bucket):
    me = s3.get_bucket_acl(Bucket=open_bucket)["Owner"]["ID"]
    s3.put_bucket_acl(
        Bucket=open_bucket,
        GrantFullControl=f"id={me}",
        GrantRead=f'id="{me}", uri="{AUTHENTICATED}"',
        GrantReadACP=f"id={me}",
        GrantWrite=f"uri={ALL}",
    )
    expected = {OWNER, ("authenticated", "READ"), ("all", "WRITE")}
    assert granted(s3.get_bucket_acl(Bucket=open_bucket)) == expected
    answer(raw.put(open_bucket, "new", b"x", anonymous=True), 200)


def test_grants_on_uploads_copies_and_existing_objects(s3, raw, open_bucket):
    read = f"uri={ALL}"
    upload = s3.create_multipart_upload(Bucket=open_bucket, Key="up", GrantRead=read)["UploadId"]
    name = {"Bucket": open_bucket, "Key": "up", "UploadId": upload}
    part = s3.upload_part(PartNumber=1, Body=b"x", **name)["ETag"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]}, **name)
    source = {"Bucket": open_bucket, "Key": "up"}
    s3.copy_object(Bucket=open_bucket, Key="copy", CopySource=source, GrantRead=read)
    s3.put_object(Bucket=open_bucket, Key="later", Body=b"x")
    with unchanged():
        answer(raw.get(open_bucket, "later", anonymous=True), 403, "AccessDenied")
    s3.put_object_acl(Bucket=open_bucket, Key="later", GrantRead=read)
    for key in ("up", "copy", "later"):
        assert answer(raw.get(open_bucket, key, anonymous=True), 200).body == b"x", key


def test_full_control_of_the_owner_is_so_anyway(s3, bucket):
    """Also in a bucket without lists."""
    me = s3.get_bucket_acl(Bucket=bucket)["Owner"]["ID"]
    s3.put_object(Bucket=bucket, Key="k", GrantFullControl=f"id={me}")
    s3.put_bucket_acl(Bucket=bucket, GrantFullControl=f"id={me}")
    assert granted(s3.get_object_acl(Bucket=bucket, Key="k")) == {OWNER}


REFUSED = [
    ("x-amz-grant-read", "everybody", 400, "InvalidArgument"),
    ("x-amz-grant-read", "", 400, "InvalidArgument"),
    ("x-amz-grant-read", "name=everybody", 400, "InvalidArgument"),
    ("x-amz-grant-read", "id=1", 400, "InvalidArgument"),
    ("x-amz-grant-read", "uri=http://example.com/everybody", 400, "InvalidArgument"),
    ("x-amz-grant-read", f"uri={GROUPS}/global/Nobody", 400, "InvalidArgument"),
    ("x-amz-grant-read", "emailAddress=a@example.com", 405, "MethodNotAllowed"),
    ("x-amz-grant-read", "id=" + "a" * 64, 501, "NotImplemented"),
    ("x-amz-grant-read", f"uri={GROUPS}/s3/LogDelivery", 501, "NotImplemented"),
    ("x-amz-grant-full-control", f"uri={ALL}", 501, "NotImplemented"),
    ("x-amz-grant-read-acp", f"uri={ALL}", 501, "NotImplemented"),
    ("x-amz-grant-write-acp", f"uri={AUTHENTICATED}", 501, "NotImplemented"),
]


@pytest.mark.parametrize("name,value,status,code", REFUSED)
def test_refused_grants(raw, open_bucket, name, value, status, code, nothing_changes):
    with nothing_changes():
        header = [(name, value)]
        answer(raw.put(open_bucket, "k", b"x", header), status, code)
        answer(raw.request("POST", object_path(open_bucket, "k"), [("uploads", "")], header), status, code)
        answer(raw.request("PUT", f"/{open_bucket}", [("acl", "")], header), status, code)


def test_where_lists_do_not_count(raw, s3, bucket, nothing_changes):
    header = [("x-amz-grant-read", f"uri={ALL}")]
    with nothing_changes():
        answer(raw.put(bucket, "k", b"x", header), 400, "AccessControlListNotSupported")
        answer(raw.request("PUT", f"/{bucket}", [("acl", "")], header), 400, "AccessControlListNotSupported")
    rules = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules)
    with nothing_changes():
        answer(raw.put(bucket, "k", b"x", header), 403, "AccessDenied")


def test_canned_list_and_grants_exclude_each_other(raw, open_bucket, nothing_changes):
    both = [("x-amz-acl", "private"), ("x-amz-grant-read", f"uri={ALL}")]
    with nothing_changes():
        answer(raw.put(open_bucket, "k", b"x", both), 400, "InvalidRequest")
        answer(raw.request("PUT", f"/{open_bucket}", [("acl", "")], both), 400, "InvalidRequest")


def test_grants_where_they_would_be_ignored(raw, s3, open_bucket, nothing_changes):
    s3.put_object(Bucket=open_bucket, Key="k", Body=b"x")
    header = [("x-amz-grant-read", f"uri={ALL}")]
    with nothing_changes():
        answer(raw.get(open_bucket, "k", header), 501, "NotImplemented")
        answer(raw.delete(open_bucket, "k", header), 501, "NotImplemented")


def test_new_bucket_cannot_be_public(raw, s3, nothing_changes):
    grant = ("x-amz-grant-read", f"uri={ALL}")
    owned = ("x-amz-object-ownership", "ObjectWriter")
    with nothing_changes():
        for acl in (grant, ("x-amz-acl", "public-read")):
            answer(raw.request("PUT", "/new-and-open", [], [acl]), 400, "InvalidBucketAclWithObjectOwnership")
            reply = raw.request("PUT", "/new-and-open", [], [acl, owned])
            answer(reply, 400, "InvalidBucketAclWithBlockPublicAccessError")


def test_documents(s3, open_bucket):
    policy = s3.get_bucket_acl(Bucket=open_bucket)
    owner, own = policy["Owner"], policy["Grants"]

    def put(kind, **grantee):
        grants = [*own, {"Grantee": {"Type": kind, **grantee}, "Permission": "READ"}]
        acl = {"Owner": owner, "Grants": grants}
        s3.put_bucket_acl(Bucket=open_bucket, AccessControlPolicy=acl)

    put("CanonicalUser", ID=owner["ID"])
    assert granted(s3.get_bucket_acl(Bucket=open_bucket)) == {OWNER}
    put("Group", URI=ALL)
    assert granted(s3.get_bucket_acl(Bucket=open_bucket)) == {OWNER, ("all", "READ")}
    with refused(400, "InvalidArgument"):
        put("CanonicalUser", ID="nobody")
    with refused(405, "MethodNotAllowed"):
        put("AmazonCustomerByEmail", EmailAddress="a@example.com")
    with refused(501, "NotImplemented"):
        put("CanonicalUser", ID="a" * 64)


@pytest.mark.parametrize(
    "owner, status, code",
    [
        ("<Owner><ID>" + 64 * "0" + "</ID></Owner>", 403, "AccessDenied"),
        ("<Owner/>", 400, "MalformedACLError"),
        ("", 400, "MalformedACLError"),
    ],
)
def test_the_owner_of_a_document_is_the_real_one(raw, s3, open_bucket, owner, status, code, nothing_changes):
    own = s3.get_bucket_acl(Bucket=open_bucket)["Owner"]["ID"]
    grant = (
        '<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
        f"<ID>{own}</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant>"
    )
    def document(owner):
        return f"<AccessControlPolicy>{owner}<AccessControlList>{grant}</AccessControlList></AccessControlPolicy>"
    with nothing_changes():
        reply = raw.request("PUT", f"/{open_bucket}", [("acl", "")], body=document(owner).encode())
        answer(reply, status, code)
    right = document(f"<Owner><ID>{own}</ID></Owner>")
    answer(raw.request("PUT", f"/{open_bucket}", [("acl", "")], body=right.encode()), 200)
