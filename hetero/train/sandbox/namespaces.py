"""Linux namespaces by system call: a root of its own, no network, no other processes, no capabilities.

Standard library only: :mod:`hetero.train.sandbox.worker` runs it, in an interpreter that has nothing else.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from pathlib import Path

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV = 4096, 16384, 1 << 18, 2, 4
_DETACH = 2
_PDEATHSIG, _NO_NEW_PRIVS, _CAPBSET_DROP, _SET_DUMPABLE = 1, 38, 24, 4
_MOUNT_SETATTR, _PIVOT_ROOT = 442, {"x86_64": 155, "aarch64": 41}
_NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def unshare(flags: int) -> None:
    """Leave the parent's namespaces of these kinds."""
    _check(_libc.unshare(flags), "unshare")


def die_with_parent() -> None:
    """Be killed when the parent ends."""
    _check(_libc.prctl(_PDEATHSIG, 9, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def write_maps(pid: int) -> None:
    """Say who the users of process ``pid``'s new namespace are; called by its parent.

    Its user 0 is us. Where we are root, its user 1 is nobody: limits on processes do not hold for root.
    """
    for kind, own in (("uid", os.geteuid()), ("gid", os.getegid())):
        if os.geteuid() == 0:
            entries = f"0 0 1\n1 {_NOBODY} 1\n"
        else:
            entries = f"0 {own} 1\n"
            if kind == "gid":
                Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/{kind}_map").write_text(entries)


def new_root(root: str) -> None:
    """Make ``root``, an empty folder, the root: the interpreter's files, read only, and nothing else."""
    Path("/proc/sys/user/max_user_namespaces").write_text(
        "0"
    )  # no namespace in which a program is root again
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    shown = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", sys.base_prefix, "/dev/null", "/dev/urandom"]
    for path in dict.fromkeys(os.path.realpath(p) for p in shown if os.path.exists(p)):
        inside = Path(root + path)
        if inside.exists():
            continue  # within a folder that is shown already
        if os.path.isdir(path):
            inside.mkdir(parents=True)
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
        _mount(path, str(inside), None, _BIND | _REC)
        _read_only(str(inside), recursive=True)
    for link in ("/lib", "/lib64"):
        if os.path.islink(link) and not os.path.lexists(root + link):
            os.symlink(os.readlink(link), root + link)
    sys.path[:] = [os.path.realpath(path) for path in sys.path]
    os.mkdir(root + "/tmp")
    os.chdir(root)
    number = _PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(number, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount2")
    os.chdir("/")
    _read_only("/", recursive=False)


def private_tmp(size: int) -> None:
    """An empty /tmp of at most ``size`` bytes, and be in it."""
    _mount("tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, f"size={size},mode=1777,nr_inodes=1024")
    os.chdir("/tmp")


def drop_privileges() -> None:
    """Give up every capability for good; where the namespace has a nobody, become it."""
    for capability in range(64):
        _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(1, 1, 1)
        os.setresuid(1, 1, 1)
    except (PermissionError, OSError):
        if os.getuid() == 1:
            raise
    header = struct.pack("Ii", 0x20080522, 0)
    _check(_libc.capset(header, struct.pack("6I", *[0] * 6)), "capset")
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def undumpable() -> None:
    """Let nobody read this process's memory."""
    _check(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def set_limits(limits: dict[str, int]) -> None:
    """Hard limits of this process and its children."""
    kinds = {
        "cpu_seconds": resource.RLIMIT_CPU,
        "memory_bytes": resource.RLIMIT_AS,
        "file_bytes": resource.RLIMIT_FSIZE,
        "open_files": resource.RLIMIT_NOFILE,
        "processes": resource.RLIMIT_NPROC,
    }
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, kind in kinds.items():
        hard = resource.getrlimit(kind)[1]
        value = limits[name] if hard == resource.RLIM_INFINITY else min(limits[name], hard)
        resource.setrlimit(kind, (value, value))


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _check(_libc.mount(texts[0], texts[1], texts[2], flags, texts[3]), f"mount {target}")


def _read_only(path: str, recursive: bool) -> None:
    attributes = struct.pack("4Q", 1 | 2, 0, 0, 0)  # read only, no set-user-id programs
    recursive_flag = 0x8000 if recursive else 0
    result = _libc.syscall(_MOUNT_SETATTR, -100, path.encode(), recursive_flag, attributes, len(attributes))
    _check(result, f"mount_setattr {path} (needs Linux 5.12)")
