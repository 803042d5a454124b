"""What becomes of attachments: ``[documents]``, ``[vision]``, ``[stt]``, ``[media]``."""

from dataclasses import dataclass, field

from shared.runtime.configuration.kinds import Address, Count, Positive, QualitySteps, Seconds, Variable

TEXT_EXTENSIONS = (
    ".txt",
    ".md",
    ".csv",
    ".json",
    ".xml",
    ".yaml",
    ".yml",
    ".html",
    ".htm",
    ".py",
    ".js",
    ".ts",
    ".sh",
    ".toml",
    ".ini",
    ".cfg",
    ".log",
    ".sql",
    ".css",
)


@dataclass(frozen=True, slots=True)
class Documents:
    """``[documents]``: text of attached documents is put into the message."""

    enabled: bool = True
    max_chars: Positive = 30_000
    max_file_bytes: Positive = 10_485_760
    text_extensions: tuple[str, ...] = TEXT_EXTENSIONS
    pdf_max_render_pages: Count = 5


@dataclass(frozen=True, slots=True)
class Vision:
    """``[vision]``: images are fitted to ``max_dimension`` pixels, then to ``max_image_bytes`` by falling quality."""

    max_image_bytes: Positive = 5_242_880
    max_dimension: Positive = 1568
    jpeg_quality_steps: QualitySteps = (85, 60, 40)
    default_caption: str = "image"
    too_large_msg: str = "image too large to display"
    caption_max_chars: Count = 200


@dataclass(frozen=True, slots=True)
class SttOpenai:
    """``[stt.openai]``."""

    api_url: Address = ""
    api_key_env: Variable = "LUCYD_OPENAI_KEY"
    model: str = "whisper-1"
    timeout: Seconds = 60.0
    retries: Count = 2


@dataclass(frozen=True, slots=True)
class SttLocal:
    """``[stt.local]``: a whisper.cpp server."""

    endpoint: Address = ""
    language: str = "auto"
    ffmpeg_timeout: Seconds = 30.0
    longest_seconds: Positive = 1800
    request_timeout: Seconds = 60.0


@dataclass(frozen=True, slots=True)
class Stt:
    """``[stt]``: speech to text. ``backend`` empty means off."""

    backend: str = ""
    voice_label: str = "voice message"
    voice_fail_msg: str = "voice message could not be transcribed"
    audio_label: str = "audio transcription"
    audio_fail_msg: str = "audio could not be transcribed"
    openai: SttOpenai = field(default_factory=SttOpenai)
    local: SttLocal = field(default_factory=SttLocal)


@dataclass(frozen=True, slots=True)
class Media:
    """``[media]``: how long received files are kept, in hours; 0 means for ever."""

    ttl_hours: Count = 24
