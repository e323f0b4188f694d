"""What a person's own programs say about what a session does: at an event, before or after it.

`events` is the table of events, `handlers` what settings say, `output` what one of them said, `outcome`
which of them an event calls and what all of them come to. `run` calls them; everything else
here is pure. A hook's output is data: it may forbid, ask, add words, and grant what no rule holds back;
it never lifts a rule. The contract is in docs/extending/hooks.md.
"""
