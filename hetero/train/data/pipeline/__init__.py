"""Cleaning of training data, as the `data` steps of a recipe say."""
