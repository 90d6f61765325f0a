"""Profiles printed in the documentation are profiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from imsbench.profile import parse_profile

ROOT = Path(__file__).parents[1]
WHOLE = [
    (page.name, block)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    if block.startswith("name:")
]


def test_there_are_some() -> None:
    assert {"README.md", "faults.md"} <= {name for name, _ in WHOLE}


@pytest.mark.parametrize(("page", "text"), WHOLE, ids=[name for name, _ in WHOLE])
def test_a_whole_profile_of_a_page_is_one(page: str, text: str) -> None:
    assert parse_profile(text, page).phases
