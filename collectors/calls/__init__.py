"""Sees what a program calls of torch, unseen by Dynamo and without a change to the program."""
