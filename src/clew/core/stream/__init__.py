"""From bytes to messages, without IO: lines, events, tool input, the finished message.

Every machine here has the same two verbs, `feed(...) -> list` and `close() -> list`. What is wrong
with the input comes out as a `StreamFault`; nothing in here raises because of what was received.

    bytes -> sse.SseDecoder | eventstream.FrameDecoder -> decode.EventDecoder | FrameEventDecoder
          -> dicts of the Messages API -> accumulate.Accumulator -> the events of events.py
"""
