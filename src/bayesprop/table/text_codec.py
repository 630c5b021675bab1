"""From bytes to text: UTF-8, wide forms of Unicode, and the older codecs of other scripts."""

from __future__ import annotations

import codecs
import re

from bayesprop.table.errors import Message, TableError, warn

_START, _MOSTLY_ASCII = 1000, 0.5  # bytes looked at for zeros, and letters so that they show
_GUESSED_FROM = 100_000  # bytes
_WESTERN = "cp1252"
_NAMES = {
    _WESTERN: "Windows-1252",
    "cp932": "Shift-JIS",
    "gb18030": "GB 18030",
    "cp949": "EUC-KR",
    "big5": "Big5",
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
    "cp1253": "Windows-1253",
}
_FIELDS = re.compile(rb"[,;\t\r\n\"]")
_FOREIGN_WORD = re.compile(r"[^\W\d_\x00-\u024f]{2,}")
_ODD = re.compile(r"[а-яё][А-ЯЁ]|[α-ωά-ώ][Α-Ω]|[\uff61-\uff9f]")
"""What letters read in another codec give: a capital after a small letter, narrow kana."""
_WORD_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def decoded(content: bytes, where: str) -> str:
    """Return the text of a file; what had to be guessed comes as TableWarning.

    TableError for what is no text, or is damaged.

    where
        What messages call the file.
    """
    codec = _wide_codec(content)
    if codec is None and b"\0" in content[:100_000]:
        raise TableError(Message.of("file.no_text", where=where))
    if codec is None and _is_utf8(content):
        codec = "utf-8-sig"
    elif codec is None:
        codec = _older_codec(content)
        letters = "letters with accents" if codec == _WESTERN else "letters"
        own = {"where": where, "codec": _NAMES[codec], "letters": letters}
        warn(Message.of("file.older_codec", **own))
    try:
        return content.decode(codec)
    except UnicodeDecodeError as error:
        if codec == _WESTERN:  # five bytes that it does not have
            return content.decode("latin-1")
        name = _NAMES.get(codec, codec[:6].upper())
        raise TableError(Message.of("file.damaged_text", where=where, codec=name)) from error


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _wide_codec(content: bytes) -> str | None:
    """Return the form of UTF-16 that text has, by its mark or the zeros of its ASCII letters.

    Or UTF-32 by its mark, which begins with that of UTF-16.
    """
    if content.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    start = content[:_START]
    zeros = [start[side::2].count(0) / max(len(start) / 2, 1) for side in (0, 1)]
    if min(zeros) > 0.0 or max(zeros) < _MOSTLY_ASCII:
        return None
    return "utf-16-be" if zeros[0] else "utf-16-le"


def _older_codec(content: bytes) -> str:
    """Return the likeliest codec of text that is not UTF-8.

    One of another script than Latin needs words of it: a lone letter is a sign such as ° of
    Windows-1252.
    """
    from charset_normalizer import from_bytes

    start = content
    if len(content) > _GUESSED_FROM:
        start = content[:_GUESSED_FROM].rpartition(b"\n")[0]
    fields = dict.fromkeys(field for field in _FIELDS.split(start) if not field.isascii())
    matches = from_bytes(b", ".join(fields), cp_isolation=list(_NAMES))
    if not matches:
        return _WESTERN
    # Of a few words several codecs can make equally clean ones.
    best = min(
        matches,
        key=lambda one: (round(one.chaos, 2), -one.coherence, len(_ODD.findall(str(one)))),
    )
    words = _WORD_BEYOND_ASCII.findall(str(best))
    n_foreign = sum(_FOREIGN_WORD.search(word) is not None for word in words)
    return best.encoding if n_foreign > len(words) / 2 else _WESTERN
