"""What the trust in a plugin covers: every file in it, and where its links lead."""

from pathlib import Path

from clew.parts.plugins.store import compute_fingerprint


def test_a_link_counts_with_its_name_its_target_and_the_content_there(tmp_path: Path) -> None:
    plugin, elsewhere = tmp_path / "plugin", tmp_path / "elsewhere"
    for folder in (plugin / "one", plugin / "two", elsewhere):
        folder.mkdir(parents=True)
        (folder / "run.sh").write_text(f"echo {folder.name}\n", "utf-8")
    seen = {compute_fingerprint(plugin)}
    (plugin / "now").symlink_to("one")
    seen.add(compute_fingerprint(plugin))
    (plugin / "now").unlink()
    (plugin / "now").symlink_to("two")
    seen.add(compute_fingerprint(plugin))
    (plugin / "hook.sh").symlink_to(elsewhere / "run.sh")
    seen.add(compute_fingerprint(plugin))
    (elsewhere / "run.sh").write_text("echo other\n", "utf-8")
    seen.add(compute_fingerprint(plugin))
    assert len(seen - {""}) == 5
    assert compute_fingerprint(plugin) == compute_fingerprint(plugin)


def test_a_plugin_that_links_a_folder_outside_of_it_cannot_be_trusted(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "scripts").symlink_to(tmp_path)
    assert compute_fingerprint(plugin) == ""
