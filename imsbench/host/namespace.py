"""Namespaces of a process: an anonymous network of its own, with root's help or without it.

A network namespace here has no name: it lives as long as the process that entered it, and the kernel
takes its links, routes, rules and TUN devices with it, also after SIGKILL. Without root the same is
had inside a user namespace (user_namespaces(7)), in which the process is root over its own network.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from imsbench.host import links, tun

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000

ROOTLESS_MARK = "IMSBENCH_ROOTLESS"
"""Environment variable that a re-executed process carries, so that it is tried once only."""

_IPPROTO_ESP = 50
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18  # linux/mount.h


class HostError(Exception):
    """The host lacks something; the text says what, and what to do (exit code 5)."""


def enter_new_network_namespace() -> None:
    """Leave the network namespace for a new, empty one with loopback up; HostError if refused.

    Call it before any thread is started: only the calling thread moves.
    """
    _unshare(CLONE_NEWNET, "CAP_SYS_ADMIN (a network namespace: unshare(2) CLONE_NEWNET)")
    links.set_up("lo")


def enter_network_namespace_of(pid: int) -> None:
    """Join the network namespace of a running process (setns(2)); HostError if refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"no network namespace of process {pid}: {error.strerror}") from error
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise HostError(f"the network namespace of process {pid} is refused: {reason}")
    finally:
        os.close(descriptor)


def enter_private_directory(path: str) -> None:
    """Have an empty directory in memory at ``path``, for this process and its children alone.

    It goes with the last of them, also after SIGKILL; what else is at this path is hidden from them.
    HostError if that is refused.
    """
    _unshare(CLONE_NEWNS, "CAP_SYS_ADMIN (a mount namespace: unshare(2) CLONE_NEWNS)")
    # Private first: what is mounted here must not show up where we came from.
    _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE)
    _mount(b"tmpfs", path.encode(), b"tmpfs", 0)


def have_net_admin() -> bool:
    """Whether this process may make network namespaces, links and raw sockets."""
    return not refused_privileges(with_tun=False)


def refused_privileges(*, with_tun: bool = True) -> list[str]:
    """What the host refuses, each named with its reason; empty where all is granted.

    ``with_tun``: whether a TUN device is wanted too (user-space ESP).

    Tried for real, in a child and in a namespace that dies with it: a capability bit says little in
    a container whose seccomp filter or security module refuses the call.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            text = "\n".join(_try_privileges(with_tun))
            os.write(writer, text.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    return answer.split("\n") if answer else []


def reexec_rootless(*, with_tun: bool = True) -> None:
    """Make this process root over namespaces of its own, if it is not capable already.

    Returns at once where nothing is refused. Else the process enters a user, a network and a mount
    namespace (as ``unshare -Urnm``) and runs its own command line again in them; HostError names
    every privilege that is refused even there. Fits targets that live inside the namespaces
    (embedded, null): nothing in there reaches the host's network.
    """
    refused = refused_privileges(with_tun=with_tun)
    if not refused:
        return
    if os.environ.get(ROOTLESS_MARK):
        raise HostError(_refusal("inside a user namespace", refused))
    uid, gid = os.geteuid(), os.getegid()
    _unshare(
        CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS,
        "a user namespace (unshare(2) CLONE_NEWUSER); see kernel.unprivileged_userns_clone, "
        "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces",
    )
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise HostError(f"a user namespace may not map uid {uid}: {error.strerror}") from error
    refused = refused_privileges(with_tun=with_tun)
    if refused:
        raise HostError(_refusal("with and without a user namespace", refused))
    environment = os.environ | {ROOTLESS_MARK: "1"}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _refusal(where: str, refused: list[str]) -> str:
    return "\n".join([f"not enough privileges ({where}); run as root, or grant:", *refused])


def _unshare(flags: int, what: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) == 0:
        return
    number = ctypes.get_errno()
    hint = " (the process has threads already)" if number == errno.EINVAL else ""
    raise HostError(f"refused: {what}: {os.strerror(number)}{hint}")


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, target, kind, ctypes.c_ulong(flags), None) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise HostError(f"a mount at {target.decode()} is refused: {reason}")


def _try_privileges(with_tun: bool) -> list[str]:
    refused = _refused(enter_new_network_namespace, "CAP_SYS_ADMIN, CAP_NET_ADMIN: new network")
    if refused:  # the rest would be tried on the host itself
        return refused
    refused += _refused(lambda: links.create_veth("try0", "try1"), "CAP_NET_ADMIN: veth links")
    refused += _refused(_try_raw_socket, "CAP_NET_RAW: raw socket for ESP")
    if with_tun:
        refused += _refused(lambda: tun.open_tun("try2").close(), "TUN device")
    return refused


def _try_raw_socket() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, _IPPROTO_ESP).close()


def _refused(attempt: Callable[[], None], what: str) -> list[str]:
    try:
        attempt()
    except (OSError, HostError, links.LinkError, tun.TunError) as error:
        return [f"  {what}: {error}"]
    return []
