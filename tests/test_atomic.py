import errno
import os
import stat

import pytest

from bayesprop.atomic import write_atomically


def full_disk(file):
    file.write(b"half of")
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(file):
    file.write(b"half of")
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("trouble", "error"), [(full_disk, OSError), (interrupted, KeyboardInterrupt)]
)
def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, trouble, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(error):
        write_atomically(path, trouble)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_obeys_the_umask_and_an_old_one_keeps_its_mode(tmp_path):
    fresh, old = tmp_path / "fresh", tmp_path / "old"
    before = os.umask(0o027)
    try:
        write_atomically(fresh, lambda file: file.write(b"new"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o640
    old.write_bytes(b"old")
    old.chmod(0o604)
    write_atomically(old, lambda file: file.write(b"new"))
    assert stat.S_IMODE(old.stat().st_mode) == 0o604
    assert old.read_bytes() == b"new"


def test_links_are_followed_and_devices_written_to(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomically(link, lambda file: file.write(b"new"))
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    write_atomically("/dev/null", lambda file: file.write(b"gone"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_folder_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, lambda file: file.write(b""))
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "none" / "file", lambda file: file.write(b""))


def test_names_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("模" * 80 + ".csv")  # 244 of 255 bytes
    write_atomically(path, lambda file: file.write(b"x"))
    assert path.read_bytes() == b"x"
