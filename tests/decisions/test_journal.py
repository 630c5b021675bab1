"""Records that are there again; what was cut off is told from what was damaged."""

from __future__ import annotations

import os

import pytest

from bayesprop.decisions import journal
from bayesprop.decisions.journal import Journal, Lock
from bayesprop.store import ModelFileError

RECORDS = [{"do": "x", "value": 0.1}, {"do": "y", "value": [1.0, -2.5e-300]}, {"do": "größer"}]


@pytest.fixture
def written(tmp_path):
    """A journal of two files: two records, and one."""
    one = Journal.create(tmp_path, sync=False)
    one.append(RECORDS[0])
    one.append(RECORDS[1])
    one.start_part()
    one.append(RECORDS[2])
    one.close()
    return tmp_path, one.identity


def reopened(folder, identity, first=0):
    one, records = Journal.open(folder, identity, first, sync=True)
    one.close()
    return records


def file_of(folder, first):
    return folder / f"records-{first:012d}.log"


def test_records_come_back_from_any_part_on(written):
    folder, identity = written
    assert reopened(folder, identity) == RECORDS
    assert reopened(folder, identity, 2) == RECORDS[2:]
    assert [part.records for part in journal.parts(folder)] == [RECORDS[:2], RECORDS[2:]]
    with pytest.raises(ModelFileError, match="lacks the file with record 1"):
        reopened(folder, identity, 1)


def test_appending_goes_on_where_the_journal_ended(written):
    folder, identity = written
    for place in (3, 4):
        one, records = Journal.open(folder, identity, 0, sync=True)
        assert one.n_records == len(records) == place
        one.append({"n": place})
        one.close()
    assert reopened(folder, identity) == [*RECORDS, {"n": 3}, {"n": 4}]


def test_a_record_cut_off_at_any_byte_is_dropped(written):
    folder, identity = written
    path = file_of(folder, 2)
    whole = path.read_bytes()
    title = whole.index(b"\n") + 1
    for end in range(title, len(whole)):
        path.write_bytes(whole[:end])
        assert reopened(folder, identity) == RECORDS[:2]
        assert path.read_bytes() == whole[:title]
    path.write_bytes(whole + bytes(100))  # a power cut may leave zeros
    assert reopened(folder, identity) == RECORDS
    assert path.read_bytes() == whole
    path.write_bytes(whole[: title - 1])
    with pytest.raises(ModelFileError, match="damaged"):
        reopened(folder, identity)


@pytest.mark.parametrize("first", [0, 2])
def test_a_flipped_bit_anywhere_is_found(written, first):
    folder, identity = written
    path = file_of(folder, first)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0x01, 0x20, 0x80):
            flipped = bytearray(whole)
            flipped[place] ^= bit
            path.write_bytes(flipped)
            with pytest.raises(ModelFileError, match=r"damaged|schema") as error:
                reopened(folder, identity)
            assert "\n" not in str(error.value)


def test_records_that_are_missing_or_in_another_place_are_found(written):
    folder, identity = written
    old, last = file_of(folder, 0), file_of(folder, 2)
    whole = old.read_bytes()
    lines = whole.splitlines(keepends=True)
    for wrong in (lines[:1] + lines[2:], lines[:1] + lines[2:0:-1], [*lines, lines[2]], lines[:2]):
        old.write_bytes(b"".join(wrong))
        with pytest.raises(ModelFileError):
            reopened(folder, identity)
    old.write_bytes(whole[:-5])  # cut off, but not at the end of the journal
    with pytest.raises(ModelFileError, match="in record 1"):
        reopened(folder, identity)
    old.write_bytes(whole)
    last.rename(file_of(folder, 3))
    with pytest.raises(ModelFileError, match="lacks the file with record 2"):
        reopened(folder, identity)


def test_parts_of_another_journal_or_a_newer_library_are_refused(written, tmp_path_factory):
    folder, identity = written
    other = tmp_path_factory.mktemp("other")
    Journal.create(other, sync=False).close()
    with pytest.raises(ModelFileError, match="of another journal"):
        reopened(other, identity)
    path = file_of(folder, 0)
    path.write_bytes(path.read_bytes().replace(b"journal 1 ", b"journal 2 ", 1))
    with pytest.raises(ModelFileError, match="has schema 2, this bayesprop reads 1: upgrade"):
        reopened(folder, identity)
    path.write_bytes(b"\x80\x04\x95 a pickle")
    with pytest.raises(ModelFileError, match="does not begin as one"):
        list(journal.parts(folder))


def test_a_journal_with_records_is_not_begun_again(written):
    folder, identity = written
    with pytest.raises(ModelFileError, match="lacks the snapshot"):
        Journal.create(folder, sync=False)
    assert reopened(folder, identity) == RECORDS


def test_old_parts_can_be_forgotten(written):
    folder, identity = written
    one, _ = Journal.open(folder, identity, 0, sync=False)
    one.forget_parts()
    one.close()
    assert reopened(folder, identity, 2) == RECORDS[2:]
    assert [part.records for part in journal.parts(folder)] == [RECORDS[2:]]


def test_a_full_disk_adds_nothing(written, monkeypatch):
    folder, identity = written
    one, _ = Journal.open(folder, identity, 0, sync=False)
    real = os.write

    def full(handle, content):
        if len(content) > 10:
            return real(handle, content[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(ModelFileError, match="No space left"):
            one.append({"n": 123456})
    one.append({"n": 3})
    one.close()
    assert reopened(folder, identity) == [*RECORDS, {"n": 3}]


def test_one_writer_at_a_time_of_one_process(tmp_path, monkeypatch):
    lock = Lock(tmp_path)
    with pytest.raises(ModelFileError, match="is in use: one process at a time"):
        Lock(tmp_path)
    lock.check()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="open it in the process that uses it"):
        lock.check()
    lock.release()
    Lock(tmp_path).release()
