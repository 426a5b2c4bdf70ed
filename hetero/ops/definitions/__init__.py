"""The ops, one file each: schema, maths in plain torch, backward, cost, samples, public function."""
