"""Detect that a server silently truncated the prompt.

Some servers drop the beginning of a prompt that exceeds their window, including instructions and
tools, and answer normally. The prompt tokens that they report reveal it.
"""

# An estimate is not wrong by this much: a count below this share means a truncated prompt.
PLAUSIBLE = 0.6
# Smaller prompts fit everywhere, and their estimates are rough.
LEAST_TOKENS = 2_000
REMEDIES = {
    "ollama": "set OLLAMA_CONTEXT_LENGTH=32768 for the server and restart it",
    "lmstudio": "load the model with a larger context length",
    "llamacpp": "start the server with a larger context: -c 32768",
    "vllm": "start the server with a larger --max-model-len",
}


def describe_cut(counted_tokens: int, estimated_tokens: int, title: str, service: str) -> str:
    """Return a warning if the server read much less than was sent; otherwise an empty string."""
    if not counted_tokens or estimated_tokens < LEAST_TOKENS:
        return ""
    if counted_tokens >= PLAUSIBLE * estimated_tokens:
        return ""
    remedy = REMEDIES.get(service, "give the model a larger context window")
    return (
        f"{title} read only {counted_tokens:,} of about {estimated_tokens:,} tokens: its context "
        f"window is too small, and the instructions were cut off. To fix it, {remedy}."
    )
