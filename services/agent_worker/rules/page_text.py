"""HTML as text that a model can read: headings, lists, tables, links, and ``pre`` as it is.

One pass from left to right over whatever there is, without a stack, so that neither depth nor rubbish costs more than
its length: a search that finds nothing ends the page or is not made again. Python's own parser takes the square of it.
"""

import html
import re
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")
_NAME = re.compile(r"[A-Za-z][^\s/>]{0,40}")
_ATTRIBUTE = re.compile(r"[\s/]*+([^\s/>=][^\s/>=]*+)(\s*+=\s*+)?")
_BARE = re.compile(r"[^\s>]*+")
_REST = re.compile(r"[\s/]*+")
_SPACE = re.compile(r"\s+")
_ENTITY = re.compile(r"&(?:#[0-9]{1,8}(?![0-9])|#[xX][0-9a-fA-F]{1,8}(?![0-9a-fA-F])|[A-Za-z][A-Za-z0-9]{1,31});?")
_BLANK_LINES = re.compile(r"\n{3,}")

_RAW = frozenset({"script", "style", "iframe", "noembed", "noframes"})
"""What stands in them is no HTML; without an end they go to the end of the page."""

_DROPPED = _RAW | {"template", "svg", "object", "canvas", "select"}

_PARAGRAPHS = frozenset(
    {"p", "ul", "ol", "dl", "table", "blockquote", "article", "section", "header", "footer", "main", "nav", "aside"}
    | {"form", "fieldset", "figure", "details", "address"}
)
_LINES = frozenset(
    {"div", "tr", "dt", "dd", "br", "option", "figcaption", "summary", "caption", "legend", "body", "center"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_LONGEST_LINK = 2_000
_MOST_ATTRIBUTES = 60


def page_text(page: str, url: str = "") -> tuple[str, str]:
    """Title and text of a page; links are written out from ``url``, where the page came from."""
    reading = _Reading(page, url)
    reading.run()
    return reading.title, reading.text


class _Reading:
    def __init__(self, page: str, url: str) -> None:
        self._page = page
        self._base = url
        self._at = 0
        self._parts: list[str] = []
        self._line_is_empty = True
        self._breaks = 0
        self._space_is_due = False
        self._pre = 0
        self._link: tuple[str, int] | None = None
        self._endless: set[str] = set()
        self.title = ""

    @property
    def text(self) -> str:
        """What was read so far."""
        lines = "\n".join(line.rstrip() for line in "".join(self._parts).split("\n"))
        return _BLANK_LINES.sub("\n\n", lines).strip("\n")

    def run(self) -> None:
        """Read it all."""
        page, end = self._page, len(self._page)
        while self._at < end:
            markup = _MARKUP.search(page, self._at)
            start = markup.start() if markup else end
            if start > self._at:
                self._say(page[self._at : start])
            self._at = start
            if markup:
                self._read_markup()
        self._end_link()

    def _read_markup(self) -> None:
        page, at = self._page, self._at
        after = page[at + 1 : at + 2]
        if page.startswith("<!--", at):
            self._skip_past("-->", at + 4)
        elif after in ("!", "?"):
            self._skip_past(">", at + 2)
        elif after == "/":
            name = _NAME.match(page, at + 2)
            self._skip_past(">", at + 2)
            if name:
                self._close(name[0].lower())
        elif name := _NAME.match(page, at + 1):
            self._open(name[0].lower(), self._attributes(name.end()))

    def _skip_past(self, what: str, start: int) -> None:
        found = self._page.find(what, start)
        self._at = len(self._page) if found < 0 else found + len(what)

    def _attributes(self, at: int) -> Mapping[str, str]:
        """Those of the tag that is being read, past whose end it goes; of a name that comes twice the first."""
        page, end = self._page, len(self._page)
        found: dict[str, str] = {}
        while at < end:
            part = _ATTRIBUTE.match(page, at)
            if part is None:
                rest = _REST.match(page, at)
                at = rest.end() if rest else at
                if page[at : at + 1] in (">", ""):
                    break
                at += 1
                continue
            at = part.end()
            value = ""
            if part[2]:
                quote = page[at : at + 1]
                if quote in ("'", '"') and quote:
                    close = page.find(quote, at + 1)
                    close = end if close < 0 else close
                    value, at = page[at + 1 : min(close, at + 1 + 2 * _LONGEST_LINK)], close + 1
                elif bare := _BARE.match(page, at):
                    value, at = bare[0][: 2 * _LONGEST_LINK], bare.end()
            if len(found) < _MOST_ATTRIBUTES:
                found.setdefault(part[1][:40].lower(), value)
        self._at = min(at + 1, end)
        return found

    def _open(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _DROPPED or name in ("title", "textarea"):
            self._content_of(name)
        elif name == "pre":
            self._begin_line(2)
            self._add("```\n")
            self._pre += 1
            self._at += self._page.startswith("\n", self._at)
        elif name == "a":
            self._end_link()
            if link := self._absolute(attributes.get("href", "")):
                self._due_space()
                self._link = (link, len(self._parts))
        elif name == "img":
            if alt := _unescaped(attributes.get("alt", "")).strip():
                self._say(f"[image: {alt[:300]}]", is_escaped=False)
        elif name == "base":
            self._base = self._absolute(attributes.get("href", "")) or self._base
        else:
            self._layout(name)

    def _layout(self, name: str) -> None:
        if name in _HEADINGS:
            self._begin_line(2)
            self._add(f"{_HEADINGS[name]} ")
        elif name == "li":
            self._begin_line(1)
            self._add("- ")
        elif name == "hr":
            self._begin_line(2)
            self._add("---")
            self._begin_line(2)
        elif name in ("td", "th"):
            if not self._line_is_empty:
                self._add(" | ")
        elif name == "br":
            self._add("\n")
        elif name in _PARAGRAPHS:
            self._begin_line(2)
        elif name in _LINES:
            self._begin_line(1)

    def _close(self, name: str) -> None:
        if name == "a":
            self._end_link()
        elif name == "pre":
            if self._pre:
                self._pre -= 1
                self._begin_line(1)
                self._add("```")
                self._begin_line(2)
        elif name in _HEADINGS or name in _PARAGRAPHS:
            self._begin_line(2)
        elif name in _LINES or name == "li":
            self._begin_line(1)

    def _content_of(self, name: str) -> None:
        """What stands between this tag and its end is one thing; without an end the tag alone is passed over."""
        if name not in self._endless:
            end = re.compile(rf"</{name}(?=[\s/>]|$)", re.IGNORECASE).search(self._page, self._at)
            if end is not None:
                content, self._at = self._page[self._at : end.start()], end.start()
                if name == "title":
                    self.title = self.title or " ".join(_unescaped(content[:2_000]).split())[:300]
                elif name == "textarea":
                    self._say(content)
                return
            self._endless.add(name)
        if name in _RAW:
            self._at = len(self._page)

    def _say(self, text: str, *, is_escaped: bool = True) -> None:
        said = _unescaped(text) if is_escaped else text
        if self._pre:
            self._add(said)
            return
        said = _SPACE.sub(" ", said)
        if said.startswith(" "):
            self._space_is_due = True
        words = said.strip(" ")
        if words:
            self._due_space()
            self._add(words)
            self._space_is_due = said.endswith(" ")

    def _due_space(self) -> None:
        if self._space_is_due and not self._line_is_empty:
            self._parts.append(" ")
        self._space_is_due = False

    def _add(self, text: str) -> None:
        if text:
            self._parts.append(text)
            ending = len(text) - len(text.rstrip("\n"))
            self._breaks = ending if ending < len(text) else self._breaks + ending
            self._line_is_empty = text.endswith(("\n", "- ", "# "))
            if self._line_is_empty:
                self._space_is_due = False

    def _begin_line(self, breaks: int) -> None:
        """At least so many line breaks stand at the end now; a page does not begin with any."""
        missing = (1 if self._pre else breaks) - self._breaks
        if self._parts and missing > 0:
            self._add("\n" * missing)
        self._line_is_empty = True
        self._space_is_due = False

    def _end_link(self) -> None:
        if self._link is None:
            return
        link, start = self._link
        self._link = None
        words = "".join(self._parts[start:]).strip()
        if not words:
            del self._parts[start:]
        elif words == link:
            return
        elif "\n" in words:  # around whole paragraphs: the address stands behind them
            self._add(f"({link})" if self._line_is_empty else f" ({link})")
        else:
            del self._parts[start:]
            self._add(f"[{words}]({link})")

    def _absolute(self, href: str) -> str:
        href = _unescaped(href).strip()
        if not href or href.startswith("#") or len(href) > _LONGEST_LINK:
            return ""
        try:
            link = urljoin(self._base, href)
            if len(link) > _LONGEST_LINK:  # bases that are joined onto each other would grow without end
                return ""
            return link if urlsplit(link).scheme in ("http", "https", "mailto") else ""
        except ValueError:
            return ""


def _unescaped(text: str) -> str:
    """Numbers of a thousand digits are no letters, and not even looked at."""
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text
