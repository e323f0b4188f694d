"""What is taken out of an export."""

from clew.record.exchange.account import Redaction

TEXT = "ada@example.com in /home/ada has sk-ant-api03-abcdefghijklmnopqrstuvwx"


def test_secrets_are_taken_out_alone_or_with_all_that_says_who() -> None:
    alone = Redaction(only_secrets=True).text(TEXT)
    assert alone.startswith("ada@example.com in /home/ada has sk-ant-")
    assert "abcdefghijklmnop" not in alone
    whole = Redaction(folders=(("/home/ada", "~"),), names=("ada",)).text(TEXT)
    assert whole.startswith("[address] in ~ has sk-ant-")
    assert "abcdefghijklmnop" not in whole


def test_lines_of_a_list_are_looked_at_together() -> None:
    key = [
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA" * 3,
        "-----END RSA PRIVATE KEY-----",
    ]
    whole = Redaction(folders=(("/home/ada", "~"),), names=("ada",)).value([*key, "in /home/ada"])
    assert "MIIEowIBAAKCAQEA" not in str(whole)
    assert whole[-1] == "in ~"
