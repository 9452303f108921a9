"""Any server with an OpenAI-compatible `/v1/completions`: latency and throughput only."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine import EngineFacts, ServingEngine
from ..http.completions import Completions
from ..http.dialect import GetJson, local_vocabulary_size, named_model, without_secrets
from ..http.engine import HttpEngine
from ..http.server_values import a_count, a_name

_NO_LIST = (404, 405, 501)

NOTE = "no profile: the OpenAI API has none; --engine names the engines that offer one"


class OpenAi(Completions):
    """The completions API and nothing beyond it.

    Whether prompts may be token ids, which the API allows and few servers beside vLLM take, is
    found out by a request. Nothing in the API keeps a model from ending early.
    """

    name = "openai"
    default_url = "http://127.0.0.1:8000"
    takes_token_ids = None
    # There is no health call in the API: a server that lists its models is up. Where the model's
    # name is given the list is not needed, and some servers have none.
    health_path = "/v1/models"

    def is_up(self, status: int) -> bool:
        """Take a server that says that it has no list of models, if the model is known."""
        return super().is_up(status) or (self.model_name is not None and status in _NO_LIST)

    def health_hint(self) -> str | None:
        """Say what makes a server do that has no list of models."""
        if self.model_name is None:
            return "start the server first (--launch); one without /v1/models needs --served-model"
        return None

    def facts(self, get: GetJson) -> EngineFacts:
        """Ask `/v1/models`."""
        card = self.first_model(get)
        self.model_name = self.model_name or a_name(card.get("id"))
        return EngineFacts(
            model=named_model(self.model_name),
            vocabulary_size=local_vocabulary_size(card.get("root") or self.model_name),
            max_token_count=a_count(card.get("max_model_len")),
            can_profile=False,
            profile_note=NOTE,
            server=without_secrets(card),
        )


def create(values: Mapping[str, object]) -> ServingEngine:
    """Make the engine from the arguments."""
    return HttpEngine(OpenAi(), values)
