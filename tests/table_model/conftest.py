"""What a verb tells its listener, as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from bayesprop.table_model.listener import Listener, listening


class Told(Listener):
    """Keeps every sentence; `in` looks for words in any of them."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def note(self, text: str) -> None:
        self.sentences.append(text)

    def warn(self, sentences: Iterable[str]) -> None:
        self.sentences += sentences

    remark = warn

    def __contains__(self, words: str) -> bool:
        return any(words in sentence for sentence in self.sentences)


@pytest.fixture
def told() -> Iterator[Told]:
    listener = Told()
    with listening(listener):
        yield listener
