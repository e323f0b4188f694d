"""News from background tasks, as the model reads it."""

from clew.agent.tasks.notice import Notice, describe_cut, in_words


def test_the_summary_says_that_the_file_is_cut() -> None:
    notice = Notice(task_id="s1", kind="shell", title="Flood", status="completed")
    whole = Notice(
        task_id="s1", kind="shell", title="Flood", status="completed", cut=describe_cut(9, 9)
    )
    assert in_words(whole) == in_words(notice)
    cut = Notice(
        task_id="s1", kind="shell", title="Flood", status="completed", cut=describe_cut(1000, 2000)
    )
    assert "completed; the output file has only the first 1,000 of 2,000 bytes<" in in_words(cut)
