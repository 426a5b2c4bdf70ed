"""What torch_br adds on request."""
