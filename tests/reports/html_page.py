"""A page, parsed, for the tests of all pages."""

from __future__ import annotations

import html.parser
import re

VOID = {"meta", "br", "link", "img", "use"}


class Page(html.parser.HTMLParser):
    """The elements of a page; checks that they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.elements: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def refers_to_nothing_outside_itself(text: str) -> Page:
    """The page, once it is sure that it holds no reference to elsewhere and no id twice."""
    assert not re.search(r"https?://|//[a-z]|@import", text)
    page = Page(text)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in page.attributes:
        if name in ("href", "src", "xlink:href"):
            assert value.startswith("#")
            assert value[1:] in ids
    for referred in re.findall(r"url\((.*?)\)", text):
        assert referred.lstrip("#") in ids
    return page
