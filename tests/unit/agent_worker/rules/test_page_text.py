"""HTML as a model reads it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.page_text import page_text

PAGE = """<!DOCTYPE html><html><head><title> A &amp;
 B </title><style>p { color: red }</style><script>if (a < b) { say("</p>") }</script></head>
<body><h1>Hi  <b>there</b></h1><p>One <a href="/two">two</a>, <a href='javascript:x()'>three</a>
<a name=here>four</a>.<ul><li>a</li><li>b <a href=x.png><img alt="pic" src=y></a></ul>
<table><tr><th>k<th>v<tr><td>1<td>2</table>
<pre>
  code   here &lt;x&gt;
</pre>after<!-- not this -->wards<br>1 < 2 &amp;lt; &copy; &#8364; &#x41;&nbsp;&nbsp;end"""


def text_of(page: str, url: str = "https://x.example/a/") -> str:
    return page_text(page, url)[1]


def test_a_page_reads_as_it_looks() -> None:
    """Headings, lists, tables, links from where the page is, and code with its spaces."""
    title, text = page_text(PAGE, "https://x.example/a/")
    assert title == "A & B"
    assert text == (
        "# Hi there\n\nOne [two](https://x.example/two), three four.\n\n"
        "- a\n- b [[image: pic]](https://x.example/a/x.png)\n\nk | v\n1 | 2\n\n"
        "```\n  code   here <x>\n```\n\nafterwards\n1 < 2 &lt; \N{COPYRIGHT SIGN} \N{EURO SIGN} A end"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("plain words", "plain words"),
        ("a<b>b</b>c <i> d </i>e", "abc d e"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<div>one</div><div>two</div>", "one\ntwo"),
        ("one<script>two", "one"),
        ("one<!-- two", "one"),
        ("one<svg><title>x</title></svg>two", "onetwo"),
        ("one<svg>two", "onetwo"),
        ("one <a href='two", "one"),
        ("one </", "one"),
        ("a < b > c <3", "a < b > c <3"),
        ("<a href=/x>y", "[y](https://x.example/x)"),
        ("<a href=/x><a href=/y>z</a></a>", "[z](https://x.example/y)"),
        ("<a href='https://z.example/'>https://z.example/</a>", "https://z.example/"),
        ("<a href='#top'>up</a> <a href='data:x,y'>d</a> <a href='http://[::1'>e</a>", "up d e"),
        ("<a href=/x><p>one</p><p>two</p></a>", "one\n\ntwo\n\n(https://x.example/x)"),
        ("<base href=https://b.example/c/><a href=d>e</a>", "[e](https://b.example/c/d)"),
        ("<img alt='a &amp; b'><img alt=''><img>", "[image: a & b]"),
        ("<a title=\"x>y\" href='/z'>w</a>", "[w](https://x.example/z)"),
        ("<P CLASS=x>ONE<BR/>two</P>", "ONE\ntwo"),
        ("<textarea><b>x</b></textarea>", "<b>x</b>"),
        ("&#" + "9" * 5000 + ";", "&#" + "9" * 5000 + ";"),
        ("</pre></pre>x", "x"),
        ("<![CDATA[x]]>y<?php z ?>", "y"),
        ("", ""),
    ],
)
def test_each_form_has_its_text(page: str, text: str) -> None:
    """Well made and badly made."""
    assert text_of(page).replace("]]>", "") == text.replace("]]>", "")


EVIL = [
    "<", "</", "<!--", "<a ", '<a b="', "<a b='", "<script>", "<svg>", "<title>", "<div>", "&", "&#", "&#9", "<pre>",
    "<a href=x>", " ", "<a href=x>y", "<a b =", '="', "<a/", "<![CDATA[", "<textarea>", "<td>", "<svg></svg>", "<p\n",
    "<title></title", "</svg", "<b><i>", "\n", "<li>", "<a href='", "]]>", "<select>", "<base href=x>", "<h1>",
]  # fmt: skip


@pytest.mark.parametrize("evil", EVIL)
def test_rubbish_costs_no_more_than_its_length(evil: str) -> None:
    """Four times as much takes four times as long and not sixteen; depth is nothing special."""

    def takes(characters: int) -> float:
        page = evil * (characters // len(evil))
        best = 9.0
        for _ in range(3):
            started = time.process_time()
            page_text(page, "https://x.example/")
            best = min(best, time.process_time() - started)
        return best

    assert takes(120_000) < 10 * takes(30_000) + 0.05


@given(
    st.lists(st.sampled_from([*EVIL, "a", "x=y ", ">", "'", '"', "</a>", "</pre>", "é", "\0"])).map("".join) | st.text()
)
def test_nothing_breaks_it(page: str) -> None:
    """Whatever the web serves."""
    title, text = page_text(page, "https://x.example/")
    assert len(title) <= 300
    assert "\n\n\n" not in text or "<pre" in page


def test_bases_that_are_joined_onto_each_other_do_not_grow_without_end() -> None:
    """A page of 60 KB made 57 MB of text so."""
    page = '<base href="https://a.example/">' + f'<base href="{"a/" * 900}"><a href=x>y</a>' * 100
    text, _ = page_text(page, "https://a.example/")
    assert len(text) < 4 * len(page)
