"""Hooks into torch calls of an unchanged program, invisible to Dynamo."""
