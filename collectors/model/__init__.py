"""The models that are trained and served, and how their attention is computed."""
