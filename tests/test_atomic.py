import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bayesprop.atomic import alone, version_of, write_atomically


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


def killed(path, moment):
    """Leave what a process leaves that is killed as it writes a file."""
    code = "import os, signal\nfrom bayesprop.atomic import write_atomically as write\n"
    code += f"write({str(path)!r}, {moment})"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_drafts_of_a_kill_go_with_the_next_write_and_no_others(tmp_path):
    path, others = tmp_path / "m[1]", [".m[1].txt.0123456789ab.tmp", ".m[1].notes.tmp"]
    for name in others:
        (tmp_path / name).touch()
    for _ in range(2):
        assert killed(path, "lambda _: os.kill(os.getpid(), signal.SIGKILL)") == -signal.SIGKILL
        assert len(list(tmp_path.glob(".m*.tmp"))) == 3
    write_atomically(path, lambda file: file.write(b"new"))
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, *others])


def test_who_replaces_a_file_is_alone_and_refuses_another_file_than_it_read(tmp_path):
    path, waited = tmp_path / "file", []
    path.write_bytes(b"old")
    since = version_of(path)
    with alone(path), alone(path), ThreadPoolExecutor() as pool:

        def other():
            with alone(path, lambda: waited.append(1), patience=0.1):
                pass

        with pytest.raises(OSError, match="another process holds it"):
            pool.submit(other).result()
        assert waited
        (tmp_path / "new").write_bytes(b"new")
        os.replace(tmp_path / "new", path)
        with pytest.raises(OSError, match="replaced it since"):
            write_atomically(path, lambda file: file.write(b"mine"), since)
        write_atomically(path, lambda file: file.write(b"again"), version_of(path))
    assert path.read_bytes() == b"again"
    assert os.listdir(tmp_path) == ["file"]
