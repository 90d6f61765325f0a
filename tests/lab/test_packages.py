"""What a lab needs of a machine, and the line that installs what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from imsbench.lab import packages


def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, programs: str, modules: str) -> str:
    """A library folder beside a PATH with these programs."""
    binaries, library = tmp_path / "bin", tmp_path / "lib"
    binaries.mkdir()
    for name in programs.split():
        (binaries / name).touch(mode=0o755)
    folder = library / "kamailio/modules"
    if modules:
        folder.mkdir(parents=True)
    for name in modules.split():
        (folder / name).touch()
    monkeypatch.setenv("PATH", str(binaries))
    monkeypatch.setattr(packages, "_SBIN", str(tmp_path / "sbin"))
    return str(library)


def test_a_machine_with_everything_lacks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = machine(
        tmp_path,
        monkeypatch,
        programs="kamailio unshare",
        modules="tm.so ims_icscf.so presence.so",
    )
    assert packages.missing([library]) == []
    assert packages.module_folder([library]) == f"{library}/kamailio/modules"
    assert packages.advice([]) == ""


def test_ims_and_presence_are_packages_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = machine(tmp_path, monkeypatch, programs="kamailio unshare", modules="tm.so")
    extra = ["kamailio-ims-modules", "kamailio-presence-modules"]
    assert packages.missing([library]) == extra


def test_one_line_installs_all_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = machine(tmp_path, monkeypatch, programs="", modules="")
    missing = packages.missing([library])
    modules = ["kamailio-ims-modules", "kamailio-presence-modules"]
    assert missing == ["kamailio", *modules, "util-linux"]
    line = f"sudo apt-get install --no-install-recommends kamailio {' '.join(modules)} util-linux"
    assert packages.advice(missing).endswith(line)
    assert packages.version() == ""
