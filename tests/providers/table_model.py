"""A language model written as a transition table: which token follows which, and how often.

The file is a GGUF of the llama architecture. Each token is one dimension, attention and the
feed-forward network are zero, and the output matrix has the logarithms of the probabilities. So the
model says what the table says, and needs no training and no download. A token may be a whole phrase,
such as a tool call.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5
ALIGNMENT = 32
NEVER = -30.0
END = "<|end|>"
ANSWER = "<|answer|>"

Table = Mapping[str, Mapping[str, float]]


def write_model(path: Path, table: Table, *, template: str, window: int = 131_072) -> None:
    """Write a model whose answers follow the table, beginning with the row of `ANSWER`."""
    phrases = list(dict.fromkeys([*table, *(word for row in table.values() for word in row)]))
    special = [word for word in phrases if word != END]
    tokens = ["<unk>", END, *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *special]
    kinds = [UNKNOWN, CONTROL, *[BYTE] * 256, NORMAL, *[USER_DEFINED] * len(special)]
    width = math.ceil(len(tokens) / 64) * 64
    place = {token: number for number, token in enumerate(tokens)}
    fields: dict[str, tuple[int, Any]] = {
        "general.architecture": (STRING, "llama"),
        "general.name": (STRING, "table"),
        "llama.context_length": (UINT32, window),
        "llama.embedding_length": (UINT32, width),
        "llama.block_count": (UINT32, 1),
        "llama.feed_forward_length": (UINT32, 32),
        "llama.attention.head_count": (UINT32, width // 64),
        "llama.attention.head_count_kv": (UINT32, 1),
        "llama.attention.layer_norm_rms_epsilon": (FLOAT32, 1e-6),
        "llama.rope.dimension_count": (UINT32, 64),
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.scores": (ARRAY, (FLOAT32, [0.0] * len(tokens))),
        "tokenizer.ggml.token_type": (ARRAY, (INT32, kinds)),
        "tokenizer.ggml.unknown_token_id": (UINT32, 0),
        "tokenizer.ggml.bos_token_id": (UINT32, place[END]),
        "tokenizer.ggml.eos_token_id": (UINT32, place[END]),
        "tokenizer.ggml.add_bos_token": (BOOL, False),
        "tokenizer.ggml.add_space_prefix": (BOOL, False),
        "tokenizer.chat_template": (STRING, template),
    }
    count = len(tokens)
    # The norm multiplies the one dimension of a token by the root of the width.
    scale = math.sqrt(width)
    logits = [[NEVER / scale] * width for _ in range(count)]
    for number, token in enumerate(tokens):
        for follower, share in table.get(token, {END: 1.0}).items():
            logits[place[follower]][number] = math.log(share) / scale
    one_hot = [[float(column == row) for column in range(width)] for row in range(count)]
    zeros = [0.0] * width
    tensors: list[tuple[str, tuple[int, ...], list[float]]] = [
        ("token_embd.weight", (width, count), _flat(one_hot)),
        ("blk.0.attn_norm.weight", (width,), [1.0] * width),
        ("blk.0.attn_q.weight", (width, width), zeros * width),
        ("blk.0.attn_k.weight", (width, 64), zeros * 64),
        ("blk.0.attn_v.weight", (width, 64), zeros * 64),
        ("blk.0.attn_output.weight", (width, width), zeros * width),
        ("blk.0.ffn_norm.weight", (width,), [1.0] * width),
        ("blk.0.ffn_gate.weight", (width, 32), zeros * 32),
        ("blk.0.ffn_up.weight", (width, 32), zeros * 32),
        ("blk.0.ffn_down.weight", (32, width), zeros * 32),
        ("output_norm.weight", (width,), [1.0] * width),
        ("output.weight", (width, count), _flat(logits)),
    ]
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)))
        for name, (kind, value) in fields.items():
            file.write(_text(name) + struct.pack("<I", kind) + _value(kind, value))
        offset = 0
        for name, shape, numbers in tensors:
            head = struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
            file.write(_text(name) + head + struct.pack("<IQ", 0, offset))
            offset += _padded(4 * len(numbers))
        file.write(bytes(_padded(file.tell()) - file.tell()))
        for _, _, numbers in tensors:
            data = struct.pack(f"<{len(numbers)}f", *numbers)
            file.write(data + bytes(_padded(len(data)) - len(data)))


def _flat(rows: list[list[float]]) -> list[float]:
    return [number for row in rows for number in row]


def _padded(size: int) -> int:
    return math.ceil(size / ALIGNMENT) * ALIGNMENT


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind: int, value: Any) -> bytes:
    match kind:
        case 8:
            return _text(value)
        case 9:
            inner, values = value
            return struct.pack("<IQ", inner, len(values)) + b"".join(
                _value(inner, one) for one in values
            )
        case 7:
            return struct.pack("<?", value)
        case 6:
            return struct.pack("<f", value)
        case _:
            return struct.pack("<i" if kind == INT32 else "<I", value)
