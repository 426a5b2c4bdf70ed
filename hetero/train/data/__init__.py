"""From rows in a file to batches of token ids; start at :mod:`hetero.train.data.dataset`."""
