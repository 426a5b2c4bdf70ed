"""What torch_supa adds on request."""
