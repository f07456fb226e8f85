from __future__ import annotations

from pathlib import Path

from forked_scripts import Refused, Script

ROOT = Path(__file__).resolve().parent.parent.parent


def test_links_lead_from_the_page_to_the_project(script: Script, tmp_path: Path) -> None:
    page = tmp_path / "papers.md"
    done = script("papers_page", page)
    assert done.returncode == 0, done.stderr
    link = page.read_text(encoding="utf-8").split("[`mc-sf`](")[1].split(")")[0]
    assert (tmp_path / link).resolve() == ROOT / "online" / "policies" / "j25" / "mc_sf.py"


def test_another_suffix_is_refused(refused: Refused) -> None:
    assert "FILE.md" in refused("papers_page", "papers.txt")
