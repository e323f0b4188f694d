"""What is taken out of an export."""

from clew.exchange.redact import Redaction

TEXT = "ada@example.com in /home/ada has sk-ant-api03-abcdefghijklmnopqrstuvwx"


def test_secrets_are_taken_out_alone_or_with_all_that_says_who() -> None:
    alone = Redaction(only_secrets=True).text(TEXT)
    assert alone.startswith("ada@example.com in /home/ada has sk-ant-")
    assert "abcdefghijklmnop" not in alone
    whole = Redaction(folders=(("/home/ada", "~"),), names=("ada",)).text(TEXT)
    assert whole.startswith("[address] in ~ has sk-ant-")
    assert "abcdefghijklmnop" not in whole
