"""The text of a PDF, in a process of its own: a document may be made to take all time and memory there is.

``python -m services.agent_worker.edge.tools.pdf_text <pages> <characters>`` reads the document from standard input and
writes the text; what is wrong with it goes to standard error, with exit code 1.
"""

import io
import logging
import resource
import sys

import pypdf
import pypdf.errors

from services.agent_worker.rules.page_ranges import chosen, page_ranges

MEMORY = 1_000_000_000
"""Bytes, far above what ordinary documents take."""

NOTED = 20
"""Pages without text that are named."""


def pages_as_text(data: bytes, pages: str, characters: int) -> str:
    """The pages under their numbers, cut at so many characters. Raises ``ValueError`` with a sentence."""
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ValueError("The document is encrypted with a password")
        count = len(reader.pages)
        wanted = chosen(page_ranges(pages), count)
        if not wanted:
            raise ValueError(
                f"The document has {count} page{'s' * (count != 1)}, and none of those that were asked for"
            )
        told: list[str] = []
        empty: list[int] = []
        left = characters
        for number in wanted:
            text = (reader.pages[number - 1].extract_text() or "").strip()
            if not text:
                empty.append(number)
                continue
            piece = f"--- Page {number} of {count} ---\n{text}"
            told.append(piece[:left])
            left -= len(piece)
            if left <= 0:
                told.append(f"... (cut at {characters} characters on page {number}; name fewer pages to read on)")
                break
    except (pypdf.errors.PyPdfError, RecursionError, KeyError, TypeError, AttributeError, IndexError) as fault:
        raise ValueError(f"The document can't be read: {type(fault).__name__}") from fault
    if empty:
        named = ", ".join(map(str, empty[:NOTED])) + (", ..." if len(empty) > NOTED else "")
        told.append(f"(No text on page{'s' * (len(empty) != 1)} {named}: scanned images, or damaged.)")
    return "\n\n".join(told)


def main() -> None:
    """See above."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    logging.disable()  # the library tells of each flaw that it found a way around
    try:
        text = pages_as_text(sys.stdin.buffer.read(), sys.argv[1], int(sys.argv[2]))
    except (ValueError, MemoryError) as fault:
        sys.stderr.write(str(fault) or "The document takes more memory than it may")
        sys.exit(1)
    sys.stdout.buffer.write(text.encode(errors="replace"))


if __name__ == "__main__":
    main()
