"""The mathematics of learning from preferences, as functions of log-probability sums; and the reference model.

No loop is here; :mod:`hetero.train.algorithms` puts the pieces together.
"""
