"""From a history to what a model or a screen is given.

`for_api` makes the messages of a request out of the entries of a conversation, `validate` judges any
request, `dialects` puts a request into two others, `for_display` orders a history
for the screen. All of it is pure; what was repaired is said as values. Rules and order: docs/internals/requests.md.
"""
