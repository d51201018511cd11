"""Run a command that ends when its parent ends: `python -m nousweb.runtime.parent_death_signal PARENT_PID COMMAND ...`.

A supervisor that is killed outright cannot stop its children, and they would go on holding the port. On Linux
the kernel then sends them SIGTERM; elsewhere the command simply runs.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Tie this process to its parent and become the command."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # It may have died before the kernel knew.
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
