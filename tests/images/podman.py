"""podman with files of its own, which neither meets another's nor leaves anything behind."""

# It mounts its own directory onto itself; its locks are in /dev/shm, its state in /run, whatever the options say.
_APART = ["unshare", "--mount", "sh", "-ec", 'for d in /dev/shm /run; do mount -t tmpfs none $d; done; exec "$@"', "sh"]


def podman(root, run, driver):
    """The words in front of a podman command. run: a directory with a short name, as podman wants it."""
    return [*_APART, "podman", "--root", root, "--runroot", run, "--storage-driver", driver, "--runtime", "runc",
            "--cgroup-manager", "cgroupfs"]
