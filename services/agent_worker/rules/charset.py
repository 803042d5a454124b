"""In which letters a page is written: by what it begins with, what its server says, and what it says itself."""

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_OF_TYPE = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_OF_PAGE = re.compile(
    rb"<(?:meta|\?xml)\b[^>]{0,400}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
_LOOKED_AT = 4096

_CODECS = {
    "utf-8": "utf-8", "utf8": "utf-8", "utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "windows-31j": "cp932", "x-sjis": "cp932",
    "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp", "euc-kr": "cp949", "ks_c_5601-1987": "cp949",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs", "big5-hkscs": "big5hkscs",
    "koi8-r": "koi8_r", "koi8-u": "koi8_u", "ibm866": "cp866", "cp866": "cp866", "macintosh": "mac_roman",
    "windows-874": "cp874", "tis-620": "cp874",
    "us-ascii": "cp1252", "ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252", "iso8859-1": "cp1252",
    **{f"windows-125{digit}": f"cp125{digit}" for digit in range(9)},
    **{f"cp125{digit}": f"cp125{digit}" for digit in range(9)},
    **{f"iso-8859-{number}": f"iso8859_{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}  # fmt: skip
"""Of Python's codecs those that browsers know too; others turn few bytes into many, or take their time."""


def decoded(body: bytes, content_type: str) -> str:
    """The text, without NUL; what can't be read is replaced. ``content_type`` is the header as it came."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return _text(body[len(mark) :], codec)
    told = _OF_TYPE.search(content_type)
    codec = _CODECS.get(told[1].lower(), "") if told else ""
    if not codec:
        said = _OF_PAGE.search(body[:_LOOKED_AT])
        codec = _CODECS.get(said[1].decode("ascii", "replace").lower(), "") if said else ""
        if codec.startswith("utf-16"):  # whoever could read that it says so was not reading it
            codec = "utf-8"
    return _text(body, codec or ("utf-8" if _is_utf_8(body) else "cp1252"))


def _is_utf_8(body: bytes) -> bool:
    """A letter may be cut in two at the end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True


def _text(body: bytes, codec: str) -> str:
    return body.decode(codec, "replace").replace("\0", "")
