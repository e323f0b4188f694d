"""What a person types wrongly at the programs of this folder is answered in one line that names it."""

from pathlib import Path

import pytest

from clew.testing import record, server


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "99999", "x.yaml"], "argument --port: must be a number from 0"),
        (["--port", "many", "x.yaml"], "argument --port: must be a number from 0"),
    ],
)
def test_a_port_that_is_none_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        server.main(arguments)
    assert caught.value.code == 2
    assert f"error: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("upstream", ["ftp://example.org", "example.org", "http://", "http://["])
def test_an_upstream_that_is_no_service_is_refused_before_anything_is_recorded(
    upstream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        record.main(["--upstream", upstream, "--to", str(tmp_path / "r.json")])
    assert caught.value.code == 2
    assert "argument --upstream: must be a URL such as https://" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_used_is_named_and_nothing_else_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    assert server.main([str(gone)]) == 2
    assert capsys.readouterr().err == f"{gone}: No such file or directory\n"
    assert record.main(["--upstream", "http://127.0.0.1:9", "--to", str(gone / "r.json")]) == 2
    assert capsys.readouterr().err == f"{gone / 'r.json.part'}: No such file or directory\n"
