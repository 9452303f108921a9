"""The training engines: how a model is spread over ranks and stepped, one engine per file."""
