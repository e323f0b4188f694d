"""Product texts that tests recognize without quoting them."""


def head(template: str) -> str:
    """Return the text before the first placeholder of a format string."""
    return template.partition("{")[0].strip()
