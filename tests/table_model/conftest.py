"""What a verb tells its listener, as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from bayesprop.table.errors import Said, for_terminal
from bayesprop.table_model.listener import Listener, listening


class Told(Listener):
    """Keeps every sentence; `in` looks for words in any of them."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def note(self, text: Said) -> None:
        self.sentences.append(for_terminal(text))

    def warn(self, remarks: Iterable[Said]) -> None:
        self.sentences += map(for_terminal, remarks)

    remark = warn

    def __contains__(self, words: Said) -> bool:
        return any(for_terminal(words) in sentence for sentence in self.sentences)


@pytest.fixture
def told() -> Iterator[Told]:
    listener = Told()
    with listening(listener):
        yield listener
