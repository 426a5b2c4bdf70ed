"""From rows in a file to batches of token ids; see :mod:`hetero.train.data.dataset`. Modules load on demand."""
