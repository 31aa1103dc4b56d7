"""Verifies the data of all nodes, and ends with 1 if something is wrong or could not be checked.

    python verify.py /var/lib/archipel/admin.sock
"""

import sys

from archipel_admin import Archipel


def main(socket: str) -> int:
    with Archipel(socket=socket) as admin:
        told = admin.verify()
        print(f"{told.state.value}: {told.problems} problems")
        if told.trouble:
            print(told.trouble)
        return 1 if told.problems or told.trouble else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
