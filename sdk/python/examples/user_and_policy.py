"""Makes a bucket, a user who may read it and add to it, and an access key of the user.

    python user_and_policy.py /var/lib/archipel/admin.sock photos alice
"""

import sys

from archipel_admin import Archipel


def main(socket: str, bucket: str, user: str) -> None:
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}"},
            {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": f"arn:aws:s3:::{bucket}/*"},
        ],
    }
    with Archipel(socket=socket) as admin:
        admin.create_bucket(bucket)
        admin.set_versioning(bucket)
        admin.set_quota(bucket, size=10_000_000_000)
        admin.create_policy(f"{bucket}-writers", document)
        admin.create_user(user, f"{bucket}-writers")
        key = admin.create_user_key(user)
        print(f"AWS_ACCESS_KEY_ID={key.id}\nAWS_SECRET_ACCESS_KEY={key.secret}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
