import os

import pytest

from hetero.errors import HeteroError
from hetero.lint import check

LEAK = "import torch\ntorch.cuda.synchronize()\n"


def write(path, text=LEAK):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_folders_are_searched_but_not_other_peoples_code(tmp_path):
    for name in ("a.py", "pkg/b.py", "pkg/c.txt", ".git/x.py", "__pycache__/x.py", "node_modules/x.py"):
        write(tmp_path / name)
    write(tmp_path / "venv" / "lib" / "x.py")
    write(tmp_path / "venv" / "pyvenv.cfg", "home = x\n")
    report = check([tmp_path])
    assert [f.file for f in report.findings] == [str(tmp_path / "a.py"), str(tmp_path / "pkg" / "b.py")]
    assert report.files == 2 and not report.errors


def test_a_file_that_cannot_be_checked_is_named_and_the_rest_is_checked(tmp_path):
    write(tmp_path / "a_syntax.py", "def f(:\n")
    write(tmp_path / "b_bytes.py", b"x = '\xff\xfe'\n")
    write(tmp_path / "c_null.py", b"x = 1\x00\n")
    write(tmp_path / "d_coding.py", b"# -*- coding: klingon -*-\n")
    write(tmp_path / "e_dangling.py").unlink()
    os.symlink(tmp_path / "gone.py", tmp_path / "e_dangling.py")
    write(tmp_path / "f_deep.py", "x = " + "(" * 5000)
    write(tmp_path / "g_deep.py", "x = " + "-" * 100_000 + "1")
    os.mkfifo(tmp_path / "h_fifo.py")
    write(tmp_path / "z_good.py")
    report = check([tmp_path])
    assert len(report.findings) == 1 and len(report.errors) == 8, report.errors
    assert "a_syntax.py:1: not checked, not valid Python" in report.errors[0]
    for error, name in zip(report.errors, "abcdefgh", strict=True):
        assert f"{name}_" in error


def test_encodings_as_python_reads_them(tmp_path):
    write(tmp_path / "bom.py", b"\xef\xbb\xbf" + LEAK.encode())
    write(tmp_path / "latin.py", b"# coding: latin-1\nname = '\xe9'\n" + LEAK.encode())
    report = check([tmp_path])
    assert len(report.findings) == 2 and not report.errors


def test_a_path_that_does_not_exist(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert check([tmp_path / "fifo"]).errors == [
        f"{tmp_path / 'fifo'}: not checked, cannot be read: not a regular file"
    ]
    with pytest.raises(HeteroError, match=r"gone\.py does not exist"):
        check([tmp_path / "gone.py"])
