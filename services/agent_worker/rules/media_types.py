"""What kind of file it is, by its first bytes where those tell, else by its name."""

from typing import Final

from shared.domain.attachment import image_type

UNKNOWN = "application/octet-stream"

TYPES: Final = {
    "avi": "video/x-msvideo",
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "epub": "application/epub+zip",
    "flac": "audio/flac",
    "gz": "application/gzip",
    "htm": "text/html",
    "html": "text/html",
    "ics": "text/calendar",
    "json": "application/json",
    "log": "text/plain",
    "m4a": "audio/mp4",
    "md": "text/markdown",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "odt": "application/vnd.oasis.opendocument.text",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "pdf": "application/pdf",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "py": "text/x-python",
    "svg": "image/svg+xml",
    "tar": "application/x-tar",
    "toml": "application/toml",
    "txt": "text/plain",
    "vcf": "text/vcard",
    "wav": "audio/wav",
    "webm": "video/webm",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zip": "application/zip",
}


def media_type(name: str, data: bytes) -> str:
    """The type of a file. An image is one by its bytes alone: a name says nothing of what can be shown."""
    seen = image_type(data)
    return seen or TYPES.get(name.rpartition(".")[2].lower(), UNKNOWN)
