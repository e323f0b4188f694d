"""Parse bytes into messages without I/O: lines, events, tool input and the finished message.

Every parser here has two methods, `feed(...) -> list` and `close() -> list`. Invalid input produces
a `StreamFault`; nothing here raises because of received data.

    bytes -> sse.SseDecoder | aws_frames.FrameDecoder -> decode.EventDecoder | FrameEventDecoder
          -> dicts of the Messages API -> accumulate.Accumulator -> the events of events.py
"""
