"""Makes one store of nodes that have just started, and a bucket that a user may read and add to.

    python from_nothing.py http://127.0.0.1:3903 TOKEN
"""

import sys

from archipel_admin import Archipel
from archipel_admin.models import Assign, Redundancy

POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::photos"},
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::photos/*"},
    ],
}


def main(url: str, token: str) -> None:
    with Archipel(url, token) as admin:
        nodes = [Assign(node=node.id, capacity_bytes=300 * 2**30) for node in admin.nodes()]
        admin.stage(nodes, redundancy=Redundancy(replicas=3))
        admin.apply(wait_s=3600)
        admin.create_bucket("photos")
        admin.create_policy("photos-writers", POLICY)
        admin.create_user("alice", "photos-writers")
        key = admin.create_user_key("alice")
        print(f"AWS_ACCESS_KEY_ID={key.id}\nAWS_SECRET_ACCESS_KEY={key.secret}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
