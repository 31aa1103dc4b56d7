"""Makes a bucket, and an access key that may read and write it. Run it on a node's machine as the server's user.

    python bucket_and_key.py /var/lib/archipel/admin.sock photos
"""

import sys

from archipel_admin import Archipel, ArchipelError


def main(socket: str, name: str) -> None:
    with Archipel(socket=socket) as admin:
        try:
            admin.create_bucket(name)
        except ArchipelError as error:
            if error.code != "BucketAlreadyExists":
                raise
        key = admin.create_key(f"for {name}")
        admin.grant(name, key.id, read=True, write=True)
        print(f"AWS_ACCESS_KEY_ID={key.id}\nAWS_SECRET_ACCESS_KEY={key.secret}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
