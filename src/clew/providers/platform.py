"""The Messages API on platforms with the model in the path and the version in the body.

Bedrock's runtime streams AWS frames and cannot count tokens; Vertex AI streams like Anthropic.
"""

from clew.core.json_object import Json
from clew.core.stream.aws_frames import FrameEventDecoder
from clew.providers.anthropic import AnthropicProvider, StreamDecoder
from clew.providers.base import Failure, ModelRequest
from clew.providers.request_body import Built
from clew.system.transport.seam import HttpRequest


class PlatformProvider(AnthropicProvider):
    """One endpoint of Bedrock's runtime or of Vertex AI."""

    def _http(
        self,
        path: str,
        built: Built,
        request: ModelRequest,
        *,
        stream: bool,
        kind: str = "",
        model: str = "",
    ) -> HttpRequest:
        kind = kind or ("count" if path.startswith("/v1/messages/count") else "")
        body: Json = {"anthropic_version": self.endpoint.api_version} | built.body
        if built.betas:
            body["anthropic_beta"] = list(built.betas)
        if kind != "count":
            model = str(body.pop("model", ""))
        if self.endpoint.frames:
            body.pop("stream", None)
        plain = Built(body=body, betas=())
        return super()._http(path, plain, request, stream=stream, kind=kind, model=model)

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        if "count" not in self.endpoint.paths:
            return Failure(
                kind="configuration", message="the service does not support token counting"
            )
        return await super().count_tokens(request)

    def decoder(self) -> StreamDecoder:
        if self.endpoint.frames:
            return FrameEventDecoder(max_frame_bytes=self.max_answer_bytes)
        return super().decoder()
