"""Models for training and serving, and their attention implementations."""
