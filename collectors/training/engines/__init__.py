"""Training engines, one per file: sharding and stepping of a model."""
