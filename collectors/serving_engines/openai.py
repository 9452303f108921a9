"""Any server with an OpenAI-compatible `/v1/completions`: latency and throughput only."""

from __future__ import annotations

from collections.abc import Mapping

from ._completions import Completions
from ._dialect import GetJson, local_vocabulary_size, named_model, without_secrets
from ._engine import EngineFacts, ServingEngine
from ._http import HttpEngine

NOTE = "no profile: the OpenAI API has none; --engine names the engines that offer one"


class OpenAi(Completions):
    """The completions API and nothing beyond it.

    Whether prompts may be token ids, which the API allows and few servers beside vLLM take, is
    found out by a request. Nothing in the API keeps a model from ending early.
    """

    name = "openai"
    default_url = "http://127.0.0.1:8000"
    takes_token_ids = None
    # There is no health call in the API: a server that lists its models is up.
    health_path = "/v1/models"

    def facts(self, get: GetJson) -> EngineFacts:
        """Ask `/v1/models`."""
        card = self.first_model(get)
        self.model_name = self.model_name or card.get("id")
        return EngineFacts(
            model=named_model(self.model_name),
            vocabulary_size=local_vocabulary_size(card.get("root") or self.model_name),
            max_token_count=card.get("max_model_len"),
            can_profile=False,
            profile_note=NOTE,
            server=without_secrets(card),
        )


def create(values: Mapping[str, object]) -> ServingEngine:
    """Make the engine from the arguments."""
    return HttpEngine(OpenAi(), values)
