"""The mathematics of policy gradients, as functions of tensors: advantages, ratios, objectives, sums.

No model, no sampling and no loop are here; :mod:`hetero.train.algorithms` puts them together. Sequences are
rows: ``log_p`` [B, T] holds the log-probability of each sampled token, ``mask`` [B, T] is 1 on the tokens
that count.
"""
