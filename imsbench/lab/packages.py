"""The packages that a lab needs of this machine, and the one line that installs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_MODULES = "kamailio/modules"
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def module_folder(libraries: Sequence[str] = _LIBRARIES) -> str:
    """Where Kamailio's modules are; "" if nowhere."""
    found = (str(Path(library, _MODULES)) for library in libraries)
    return next((folder for folder in found if Path(folder).is_dir()), "")


def missing(libraries: Sequence[str] = _LIBRARIES) -> list[str]:
    """The Debian packages that are not there."""
    folder = module_folder(libraries)
    needed = {
        "kamailio": bool(folder) and program("kamailio") != "",
        "kamailio-ims-modules": bool(folder) and (Path(folder) / "ims_icscf.so").is_file(),
        # ims_usrloc_scscf binds it, without any use of it here
        "kamailio-presence-modules": bool(folder) and (Path(folder) / "presence.so").is_file(),
        "util-linux": program("unshare") != "",
    }
    return [package for package, there in needed.items() if not there]


def advice(packages: Sequence[str]) -> str:
    """What to do about missing packages; "" if none is."""
    if not packages:
        return ""
    line = f"sudo apt-get install --no-install-recommends {' '.join(packages)}"
    return f"the lab needs {', '.join(packages)}, which this machine lacks: {line}"


def version() -> str:
    """Kamailio's own version; "" if it does not tell."""
    path = program("kamailio")
    if not path:
        return ""
    done = subprocess.run([path, "-v"], capture_output=True, text=True, check=False)
    found = re.search(r"kamailio (\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else ""


def program(name: str) -> str:
    """The path of a program, where the administrator's ones are looked for too; "" if there is none."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SBIN}") or ""
