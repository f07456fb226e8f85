from xml.etree import ElementTree

import pandas
import pytest

from online.pictures import new_axes, page
from online.pictures.page import FIGURE_WIDTH, bars


@pytest.fixture
def written():
    axes = new_axes(FIGURE_WIDTH, 2.6)
    axes.plot([1, 2], [3, 4], label="$ & <b>")
    axes.legend()
    frame = pandas.DataFrame(
        {"policy": ["mc-sf", "<i>$x"], "ratio": [1.25, float("nan")], "trials": [12000, None]},
        dtype=object,
    )
    sections = {"More": [["a", "<"], frame.set_index("policy")]}
    return page("log $1", "MC-SF is <best>", ["All & any", axes, frame], sections)


def test_a_page_is_well_formed_and_escapes_text(written):
    body = written.partition("<body>")[2].partition("</html>")[0]
    tree = ElementTree.fromstring("<body>" + body)
    svg = "{http://www.w3.org/2000/svg}"
    assert tree.findtext("h1") == "MC-SF is <best>"
    assert tree.findtext("p") == "log $1"
    cells = [cell.text for cell in tree.findall(".//td")][:6]
    assert cells == ["mc-sf", "1.25", "12,000", "<i>$x", None, None]
    assert [item.text for item in tree.findall("details/ul/li")] == ["a", "<"]
    assert [cell.text for cell in tree.findall("details//th")] == ["policy", "ratio", "trials"]
    assert "$ & <b>" in [text.text for text in tree.iter(f"{svg}text")]


def test_figures_and_intervals_as_text_are_aligned_as_figures():
    frame = pandas.DataFrame({"policy": ["a", "2b"], "95 %": ["[1.2, ?]", "137 to 145 (96.7 %)"]})
    written = page("t", "a", [frame])
    assert '<th class="text">policy</th><th>95 %</th>' in written
    assert "<td>[1.2, ?]</td>" in written


def test_bars_end_where_intervals_end():
    ax = bars([("known", 1.25, 1.25), ("open", 1.5, 2.0)], "mean ratio", base=1.0)
    drawn = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert drawn == [(1.0, 0.25), (1.0, 0.5), (1.5, 0.5)]
    assert [text.get_text() for text in ax.texts] == ["known", "open"]


def test_a_page_follows_the_style_of_the_reader_and_fetches_nothing(written):
    assert "#ffffff" not in written.partition("<body>")[2]
    assert "prefers-color-scheme: dark" in written
    assert "<script" not in written
    assert "src=" not in written
    assert "default-src 'none'" in written


def test_equal_content_gives_equal_pages():
    pages = set()
    for _ in range(2):
        axes = new_axes(FIGURE_WIDTH, 2.6)
        axes.plot([1, 2], [3, 4])
        pages.add(page("t", "a", [axes]))
    assert len(pages) == 1
