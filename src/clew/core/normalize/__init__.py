"""Turn a history into the messages of a request, or into the items on a screen.

`for_api` builds the messages of a request from the entries of a conversation, `validate` checks any
request, `dialects` converts a request to two other formats, and `for_display` orders a history for
the screen. All of it is pure, and repairs are reported as values. The rules and their order are
described in docs/internals/requests.md.
"""
