"""The vendors hetero ships with: one folder and one entry-point line each."""
